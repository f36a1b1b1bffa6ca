select settle.sweep(max_rows => $1::integer, namespace => $2) as settled
