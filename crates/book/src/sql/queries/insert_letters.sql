INSERT INTO job_letters (n, letter) VALUES
