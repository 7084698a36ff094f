"""The course as data: stages and exercises, lessons and solutions, and the notebooks built from them."""
