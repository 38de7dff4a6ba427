"""What summaries are worth: ROUGE beside other methods, what they follow and how fast, and how
often they need to be sent.

`python -m tests.bench.quality` runs it all; the modules, from the top down:

study           all of it, one part after the other, and the record
hotels, aspects                 ROUGE at the end, on the way, and aspect by aspect
tracking, staleness, views      ratings, polarity, aspects; changes published and what is out of
                                date; what a reader gets
facets_study                    facets, and a record of their own
facets, facets_shown            the overview of facets and each facet; presets: what repeats, how
                                often it changes
contenders, ranking/            who makes summaries: the paper's variants and ours; the classics,
                                one a file
walk, silver, rouge, calibration        a ranking to 75 words, references made greedily, scores, and
                                        whether scores are right
entity, data, words             entities with their sentences; the files they are read from; words
                                of sentences
"""
