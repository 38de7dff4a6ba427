"""Many steps of one entity at once: the same state and the same rankings as `single`, to the bit.

run          the steps as matrices: all sums by running sums
changes      what they do to the rows of the reservoir
spans        the run cut into short pieces, each seen from the centroid in its middle
candidates   which copies of which rows can be among the nearest at some step
keys         their keys after every step, one matrix product
proof        up to which step the reservoir certificate holds
playback     the changes carried out, step after step
rank         the set after every step
apply        the whole path
"""
