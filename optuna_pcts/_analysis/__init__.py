"""Analysis of a study: recommendation, delays, costs, the numbers behind each figure."""
