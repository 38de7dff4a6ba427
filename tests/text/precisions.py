"""What tests of the default engine are repeated for."""

import pytest

PRECISIONS = ("fp32", pytest.param("bf16", marks=pytest.mark.bf16))
