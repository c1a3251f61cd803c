SELECT job FROM verbs WHERE number = $1
