-- On Aurora these are AWS's extensions, on one's own machine the stand-in of the same name and signatures.
CREATE EXTENSION IF NOT EXISTS aws_lambda CASCADE;
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.records (key text PRIMARY KEY{columns});
