SELECT generation, verb, outcome, actor FROM verbs WHERE number = $1
