"""The Docker stack: what compose.yaml promises, and (slow) the stack itself on a real engine."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterator
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import time
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from helpers import ROOT
import pytest
import yaml


COMPOSE = ROOT / "docker" / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
SETTINGS = dict(
    line.split("=", 1)
    for line in (ROOT / "docker" / ".env").read_text().splitlines()
    if line and not line.startswith("#")
)
LONG_LIVED = ("storage", "worker", "dashboard")
TUNERS = ("worker", "result")  # they have a PostgreSQL under tuning inside
N_WORKERS = 3
HOSTNAME = "{{.Config.Hostname}}"


# ------------------------------------------------------------------ what the file promises


def test_the_password_is_generated_and_in_no_file() -> None:
    texts = [COMPOSE.read_text(), (ROOT / "docker" / "Dockerfile").read_text()]
    for text in texts:
        assert not re.search(r"://[^/@\s]*:[^/@\s]*@", text)  # a URL with a password in it
        assert not re.search(r"PGPASSWORD|POSTGRES_PASSWORD|HOST_AUTH_METHOD", text)
    assert not [name for name in SETTINGS if "PASS" in name]
    assert not [name for name, service in SERVICES.items() if "environment" in service]
    script = (ROOT / "docker" / "storage.sh").read_text()
    assert re.findall("password=(.*)", script) == [
        "$(od -A n -N 32 -t x1 /dev/urandom | tr -d ' \\n')"
    ]
    assert "trust" not in script


def test_only_the_dashboard_has_a_port_and_only_on_this_machine() -> None:
    ports = {name: s["ports"] for name, s in SERVICES.items() if "ports" in s}
    assert ports == {"dashboard": ["127.0.0.1:${DASHBOARD_PORT}:8080"]}
    networks = yaml.safe_load(COMPOSE.read_text())["networks"]
    assert networks["study"]["internal"] is True
    assert {name for name, s in SERVICES.items() if s["networks"] != ["study"]} == {"dashboard"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_limited_and_unprivileged(name: str) -> None:
    service = SERVICES[name]
    assert service["init"] is True
    assert service["read_only"] is (name not in TUNERS)
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == "10001:10001"
    assert service["cpus"]
    assert service["mem_limit"]
    assert not service.get("privileged")
    assert "/var/run/docker.sock" not in str(service)


@pytest.mark.parametrize("name", LONG_LIVED)
def test_what_stays_is_watched_restarted_and_stopped_gracefully(name: str) -> None:
    service = SERVICES[name]
    assert service["healthcheck"]["test"][0].startswith("CMD")
    assert service["restart"] == "on-failure"
    assert service["stop_grace_period"].endswith("s")
    if name != "storage":
        assert service["depends_on"]["storage"]["condition"] == "service_healthy"


@pytest.mark.parametrize("name", TUNERS)
def test_every_tuner_has_a_server_and_shared_memory_of_its_own(name: str) -> None:
    service = SERVICES[name]
    assert service["shm_size"] == "1g"
    assert "scratch" not in str(service["volumes"])  # in the container, and gone with it
    assert "--url" not in service["command"]  # the embedded server
    assert "container_name" not in service  # so that --scale works


def test_what_must_last_is_in_volumes() -> None:
    assert set(yaml.safe_load(COMPOSE.read_text())["volumes"]) == {"study", "password", "report"}
    assert "study:/storage" in SERVICES["storage"]["volumes"]
    for name in SERVICES.keys() - {"storage"}:
        assert "password:/password:ro" in SERVICES[name]["volumes"]


def test_bases_are_build_arguments_and_every_setting_has_a_default() -> None:
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    for name in ("POSTGRES_BASE", "PYTHON_BASE"):
        assert f"ARG {name}={SETTINGS[name]}\n" in dockerfile
        for service in SERVICES.values():
            assert service["build"]["args"][name] == f"${{{name}}}"
    bases = re.findall(r"^FROM (\S+)", dockerfile, flags=re.MULTILINE)
    assert bases == ["${POSTGRES_BASE}", "${PYTHON_BASE}", "${PYTHON_BASE}"]
    assert re.findall(r"^USER (\w+)", dockerfile, flags=re.MULTILINE) == ["pcts", "pcts"]
    used = set(re.findall(r"(?<!\$)\$\{(\w+)\}", COMPOSE.read_text()))
    assert used == SETTINGS.keys()


# ------------------------------------------------------------------ the stack itself


class Stack:
    """The stack under a name of its own, used with the commands of docker/README.md."""

    def __init__(self, compose: list[str], **settings: str) -> None:
        self.project = f"optuna-pcts-test-{secrets.token_hex(3)}"
        self.port = _free_port()
        self._compose = [*compose, "-f", str(COMPOSE)]
        self._environment = {
            **os.environ,
            **settings,
            "COMPOSE_PROJECT_NAME": self.project,
            "DASHBOARD_PORT": str(self.port),
        }

    def compose(self, *arguments: str, timeout: float = 600) -> str:
        return _run(*self._compose, *arguments, timeout=timeout, environment=self._environment)

    def containers(self, service: str) -> list[str]:
        return sorted(self.compose("ps", "--quiet", service).split())

    def trials(self) -> list[dict[str, Any]]:
        """Return the trials of the study, as the dashboard knows them."""
        address = f"http://127.0.0.1:{self.port}/api/studies"
        studies = json.load(urlopen(address, timeout=30))["study_summaries"]
        if not studies:
            return []
        (study,) = studies
        page = json.load(urlopen(f"{address}/{study['study_id']}?after=0", timeout=30))
        return list(page["trials"])

    def finished(self, after: Container[int] = ()) -> dict[int, dict[str, Any]]:
        """Return the trials that have ended by their numbers, without some."""
        ended = (t for t in self.trials() if t["state"] not in ("Running", "Waiting"))
        return {t["number"]: t for t in ended if t["number"] not in after}

    def running(self) -> set[int]:
        """Return what runs at this moment: the dashboard looks only every ten seconds."""
        (storage,) = self.containers("storage")
        query = "SELECT number FROM trials WHERE state = 'RUNNING'"
        psql = ["psql", "--host=/tmp", "--username=pcts", "--dbname=optuna", "-At", "-c", query]
        return set(map(int, _run("docker", "exec", storage, *psql).split()))

    def wait_for(self, what: str, condition: Callable[[], bool], limit: float) -> None:
        deadline = time.monotonic() + limit
        while True:
            try:
                if condition():
                    return
            except (URLError, ConnectionError):  # the dashboard is just starting
                pass
            if time.monotonic() > deadline:
                pytest.fail(f"no {what} in {limit:g} s\n{self.compose('logs', '--tail=40')}")
            time.sleep(1.0)


def _run(*command: str, timeout: float = 60, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _works(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, timeout=300).returncode == 0


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _inspect(container: str, template: str) -> str:
    return _run("docker", "inspect", "--format", template, container).strip()


@pytest.fixture
def stack() -> Iterator[Stack]:
    if shutil.which("docker") is None or not _works("docker", "info"):
        pytest.skip("no Docker engine answers here")
    compose = ["docker", "compose"] if _works("docker", "compose", "version") else []
    if not compose and shutil.which("docker-compose"):
        compose = ["docker-compose"]
    if not compose:
        pytest.skip("neither `docker compose` nor `docker-compose` is installed")
    for name in ("POSTGRES_BASE", "PYTHON_BASE"):
        base = os.environ.get(name, SETTINGS[name])
        if not (_works("docker", "image", "inspect", base) or _works("docker", "pull", base)):
            pytest.skip(f"base image {base} is not here and cannot be pulled; set {name}")
    stack = Stack(compose, SCALE="0.05", BUDGET="100000")
    try:
        yield stack
    finally:
        stack.compose("down", "--volumes", "--rmi", "all", "--remove-orphans")


@pytest.mark.slow
def test_the_stack_tunes_survives_and_loses_nothing(stack: Stack) -> None:
    volumes = _run("docker", "volume", "ls", "--quiet")
    begin = time.monotonic()
    stack.compose("build", timeout=1800)
    built = time.monotonic()
    stack.compose("up", "--detach", "--scale", f"worker={N_WORKERS}")
    workers = stack.containers("worker")
    assert len(workers) == N_WORKERS
    names = {_inspect(worker, HOSTNAME) for worker in workers}

    def who(trials: dict[int, dict[str, Any]]) -> set[str]:
        attributes = (a for t in trials.values() for a in t["user_attrs"])
        return {a["value"] for a in attributes if a["key"] == "worker"}

    stack.wait_for("trial of every worker", lambda: who(stack.finished()) == names, 180)
    first = time.monotonic()

    # As promised by the file, so in the containers.
    everyone = [c for service in LONG_LIVED for c in stack.containers(service)]
    assert {_run("docker", "exec", c, "id", "-u") for c in everyone} == {"10001\n"}
    health = "{{.State.Health.Status}}"
    stack.wait_for("health", lambda: {_inspect(c, health) for c in everyone} == {"healthy"}, 60)
    for worker in workers:
        limits = "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}} {{.HostConfig.ShmSize}}"
        assert _inspect(worker, limits) == f"{10**9} {2 * 2**30} {2**30}"
        # A server in each, with a folder that no other container has.
        assert (
            len(_run("docker", "exec", worker, "sh", "-c", "ls -d /scratch/*/data").split()) == 1
        )
    assert _inspect(stack.containers("dashboard")[0], "{{.HostConfig.PortBindings}}") == (
        f"map[8080/tcp:[{{127.0.0.1 {stack.port}}}]]"
    )
    password = _run(
        "docker", "exec", workers[0], "sh", "-c", "cut -d : -f 5 /password/pgpass"
    ).strip()
    assert len(password) == 64
    assert password not in stack.compose("logs") + stack.compose("config")

    # One is killed: the study goes on, and what it had in flight is run by another one.
    _run("docker", "kill", workers[0])
    lost = stack.running()
    time.sleep(11.0)  # until the dashboard looks again, and knows all that the killed one told
    before = stack.finished()
    stack.wait_for("trial after the kill", lambda: len(stack.finished()) > len(before) + 10, 60)
    stack.wait_for("end of all that ran", lambda: lost <= stack.finished().keys(), 240)
    failed = [t for t in stack.finished().values() if t["number"] in lost and t["state"] == "Fail"]
    assert 1 <= len(failed) <= int(SETTINGS["IN_FLIGHT"])
    # (What it had just evaluated may have its name, and was not told.)
    others = stack.finished(after={*before, *lost})
    assert who(others) == names - {_inspect(workers[0], HOSTNAME)}

    # The storage is killed: the workers wait until it is back, and have lost nothing.
    (storage,) = stack.containers("storage")
    before, lost = stack.finished(), stack.running()
    _run("docker", "kill", storage)
    time.sleep(3.0)
    _run("docker", "start", storage)
    stack.wait_for("trial after that", lambda: len(stack.finished()) > len(before) + 20, 180)
    assert _kept(before, stack.finished())
    stack.wait_for("end of all that ran", lambda: lost <= stack.finished().keys(), 60)
    assert [_inspect(worker, "{{.RestartCount}}") for worker in workers[1:]] == ["0", "0"]
    new = stack.finished(after=before).values()
    assert all(_failed_by_itself(trial) for trial in new if trial["state"] == "Fail")

    out = stack.compose("run", "--rm", "-T", "result")
    ratio = re.search(r"found [0-9.]+ s: ([0-9.]+) times as fast \(median of 5 pairs", out)
    assert ratio is not None, out
    assert float(ratio[1]) > 1.0

    # Stopped gracefully: nothing is left running, and every trial that had ended is as it was.
    before = stack.finished()
    stopping = time.monotonic()
    stack.compose("stop", "worker")
    stopped = time.monotonic() - stopping
    for worker in workers[1:]:
        assert _inspect(worker, "{{.State.ExitCode}} {{.State.OOMKilled}}") == "0 false"
    assert _kept(before, stack.finished())
    assert stack.running() == set()
    time.sleep(11.0)  # until the dashboard looks again
    assert {t["state"] for t in stack.trials()} >= {"Waiting", "Complete"}  # asked, and put back
    before = stack.finished()
    stack.compose("stop")
    assert _inspect(storage, "{{.State.ExitCode}}") == "0"

    # And it goes on from there, with as many workers as one likes.
    stack.compose("up", "--detach", "--scale", "worker=2")
    stack.wait_for("trial after the stop", lambda: len(stack.finished()) > len(before) + 10, 120)
    assert _kept(before, stack.finished())
    n_trials = len(stack.finished())

    stack.compose("down", "--volumes", "--rmi", "all", "--remove-orphans")
    label = f"label=com.docker.compose.project={stack.project}"
    for listing in (["ps", "--all"], ["volume", "ls"], ["network", "ls"]):
        assert _run("docker", *listing, "--quiet", "--filter", label) == ""
    assert _run("docker", "volume", "ls", "--quiet") == volumes  # of those without a name as well
    assert _run("docker", "images", "--quiet", f"{stack.project}-*") == ""
    print(
        f"build {built - begin:.0f} s, every worker's first trial after {first - built:.0f} s, "
        f"{n_trials} trials, {len(failed)} of the killed worker run again, "
        f"stopped in {stopped:.1f} s, {ratio[0]})"
    )


def _failed_by_itself(trial: dict[str, Any]) -> bool:
    """Return whether a trial failed because of its configuration."""
    return "failure" in [attribute["key"] for attribute in trial["user_attrs"]]


def _kept(before: dict[int, dict[str, Any]], after: dict[int, dict[str, Any]]) -> bool:
    """Return whether every trial that had ended still has its state, value and parameters."""
    keys = ("state", "values", "params")
    return all(
        [after[number].get(key) for key in keys] == [trial.get(key) for key in keys]
        for number, trial in before.items()
    )
