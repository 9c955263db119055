"""llama.cpp's own server tests, run against llama-server and against `bankml serve`, and what came out compared.

Its tests are not in this project: `python -m testing.reference_suite` takes them from the source archive that the
reference is built from, and works on a copy in a temporary folder.
"""
