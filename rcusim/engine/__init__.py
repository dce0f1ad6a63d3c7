"""Virtual time on Trio, steps, choices: what every model stands on, without a word about kernels."""
