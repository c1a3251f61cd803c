-- What review's lists and gauges need. The items themselves stand with the book's tables (book/0002_items).
CREATE INDEX items_by_status ON items (status, n);
CREATE INDEX items_working_by_reason ON items (reason) WHERE closed_at IS NULL;
CREATE INDEX items_in_doubt ON items (created_at) WHERE closed_at IS NULL AND in_doubt;
