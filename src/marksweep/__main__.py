"""`python -m marksweep` is the command line."""

from marksweep.cli import main

main()
