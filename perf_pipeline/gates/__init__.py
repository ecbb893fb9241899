"""Three gates: is the run valid, do the repeats agree, did the version change?"""
