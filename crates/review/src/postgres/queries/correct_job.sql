UPDATE jobs SET content_revision = $2, recipient_ref = $3, recipient_masked = $4 WHERE id = $1
