"""Peers on 127.0.0.1 that send other bytes than they should, and conversations of the product's clients with them."""
