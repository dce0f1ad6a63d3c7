"""Tests of the RCU room."""
