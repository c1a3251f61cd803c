SELECT make_months($1, $2)
