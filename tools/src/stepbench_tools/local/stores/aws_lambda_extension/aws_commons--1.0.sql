-- Names and signatures: Aurora User Guide, "AWS Lambda function and parameter reference".
CREATE TYPE aws_commons._lambda_function_arn_1 AS (function_name text, region text);

CREATE FUNCTION aws_commons.create_lambda_function_arn(function_name text, region text DEFAULT NULL)
RETURNS aws_commons._lambda_function_arn_1
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT ROW($1, $2)::aws_commons._lambda_function_arn_1 $$;
