"""Many steps of one entity at once: the same state and rankings as `single`, to the bit.

run         the steps as matrices, their running sums, and what they do to the reservoir's rows
candidates  which copies of which rows can be among the nearest at some step, and their keys
rank        the changes carried out, and the set after every step
apply       the complete path, and up to which step the reservoir certificate holds
"""
