"""The documentation; `docs.build` makes the parts of it that follow from the code and from the
records.
"""
