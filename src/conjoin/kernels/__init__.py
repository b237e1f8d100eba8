"""The table's softmax and its optimiser as few passes over the table as the mathematics allows, on a GPU."""
