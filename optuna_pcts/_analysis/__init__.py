"""What a study says: its answer, its delays and costs, the numbers behind each figure."""
