#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the repository and fails on what breaks its house rules."""
