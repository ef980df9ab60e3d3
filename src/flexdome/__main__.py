"""``python -m flexdome`` is the command line."""

import sys

from flexdome.cli import main

sys.exit(main())
