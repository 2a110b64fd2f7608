"""Models of other programs become runs, and runs become files of other programs: one module or folder per format."""
