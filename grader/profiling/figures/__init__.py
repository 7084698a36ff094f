"""The pictures of a profile's page, one idea per file: each takes numbers and gives a plotly figure in one language."""
