"""Tree RCU: quiescent states, the rcu_node tree, grace periods, callback lists."""
