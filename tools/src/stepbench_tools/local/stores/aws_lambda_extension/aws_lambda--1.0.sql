-- The four overloads of Aurora's `aws_lambda.invoke` (Aurora User Guide, "AWS Lambda function and parameter
-- reference"). As on Aurora they are SQL functions around one C function, so an error has the same CONTEXT line.

CREATE FUNCTION aws_lambda._invoke(
    function_name text, region text, payload text, invocation_type text, log_type text, context text, qualifier text,
    OUT status_code int, OUT response text, OUT executed_version text, OUT log_result text)
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'aws_lambda_invoke';

CREATE FUNCTION aws_lambda.invoke(
    IN function_name text, IN payload json, IN region text DEFAULT NULL,
    IN invocation_type text DEFAULT 'RequestResponse', IN log_type text DEFAULT 'None', IN context json DEFAULT NULL,
    IN qualifier varchar(128) DEFAULT NULL,
    OUT status_code int, OUT payload json, OUT executed_version text, OUT log_result text)
LANGUAGE sql VOLATILE
AS $$ SELECT i.status_code, i.response::json, i.executed_version, i.log_result
      FROM aws_lambda._invoke($1, $3, $2::text, $4, $5, $6::text, $7) i $$;

CREATE FUNCTION aws_lambda.invoke(
    IN function_name aws_commons._lambda_function_arn_1, IN payload json,
    IN invocation_type text DEFAULT 'RequestResponse', IN log_type text DEFAULT 'None', IN context json DEFAULT NULL,
    IN qualifier varchar(128) DEFAULT NULL,
    OUT status_code int, OUT payload json, OUT executed_version text, OUT log_result text)
LANGUAGE sql VOLATILE
AS $$ SELECT i.status_code, i.response::json, i.executed_version, i.log_result
      FROM aws_lambda._invoke(($1).function_name, ($1).region, $2::text, $3, $4, $5::text, $6) i $$;

CREATE FUNCTION aws_lambda.invoke(
    IN function_name text, IN payload jsonb, IN region text DEFAULT NULL,
    IN invocation_type text DEFAULT 'RequestResponse', IN log_type text DEFAULT 'None', IN context jsonb DEFAULT NULL,
    IN qualifier varchar(128) DEFAULT NULL,
    OUT status_code int, OUT payload jsonb, OUT executed_version text, OUT log_result text)
LANGUAGE sql VOLATILE
AS $$ SELECT i.status_code, i.response::jsonb, i.executed_version, i.log_result
      FROM aws_lambda._invoke($1, $3, $2::text, $4, $5, $6::text, $7) i $$;

CREATE FUNCTION aws_lambda.invoke(
    IN function_name aws_commons._lambda_function_arn_1, IN payload jsonb,
    IN invocation_type text DEFAULT 'RequestResponse', IN log_type text DEFAULT 'None', IN context jsonb DEFAULT NULL,
    IN qualifier varchar(128) DEFAULT NULL,
    OUT status_code int, OUT payload jsonb, OUT executed_version text, OUT log_result text)
LANGUAGE sql VOLATILE
AS $$ SELECT i.status_code, i.response::jsonb, i.executed_version, i.log_result
      FROM aws_lambda._invoke(($1).function_name, ($1).region, $2::text, $3, $4, $5::text, $6) i $$;

-- As on Aurora, nobody but the owner may invoke until it is granted.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA aws_lambda FROM PUBLIC;
