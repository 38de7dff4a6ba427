"""Changes of summaries and facets as they happen, for `watch` and `demo`.

    published bodies -> Board -> Frame -> lines of a screen -> viewer

Everything but the viewers is pure: the caller passes the time.
"""
