"""`python -m benchmarks`: see `benchmarks.bench`."""

import sys

from benchmarks.bench import main

sys.exit(main())
