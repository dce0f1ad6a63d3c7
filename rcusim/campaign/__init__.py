"""Many runs: seeds, and the published tables beside ours."""
