"""`python -m conjoin` is the command line too."""

from conjoin.cli import main

main()
