"""The stream: a pure processor of micro-batches, and the delivery that makes its results happen exactly once."""
