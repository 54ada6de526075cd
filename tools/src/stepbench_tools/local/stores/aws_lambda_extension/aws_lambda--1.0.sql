-- The four overloads of Aurora's `aws_lambda.invoke` (Aurora User Guide, "AWS Lambda function and parameter
-- reference"). As on Aurora they are SQL functions around one C function, so an error has the same CONTEXT line.

CREATE FUNCTION aws_lambda._invoke(
    function_name text, region text, payload text, invocation_type text, log_type text, context text, qualifier text,
    OUT status_code int, OUT response text, OUT executed_version text, OUT log_result text)
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'aws_lambda_invoke';

DO $make$
DECLARE
    form text;
BEGIN
    FOREACH form IN ARRAY ARRAY['json', 'jsonb'] LOOP
        EXECUTE format($function$
            CREATE FUNCTION aws_lambda.invoke(
                IN function_name text, IN payload %1$s, IN region text DEFAULT NULL,
                IN invocation_type text DEFAULT 'RequestResponse', IN log_type text DEFAULT 'None',
                IN context %1$s DEFAULT NULL, IN qualifier varchar(128) DEFAULT NULL,
                OUT status_code int, OUT payload %1$s, OUT executed_version text, OUT log_result text)
            LANGUAGE sql VOLATILE
            AS $$ SELECT i.status_code, i.response::%1$s, i.executed_version, i.log_result
                  FROM aws_lambda._invoke($1, $3, $2::text, $4, $5, $6::text, $7) i $$;

            CREATE FUNCTION aws_lambda.invoke(
                IN function_name aws_commons._lambda_function_arn_1, IN payload %1$s,
                IN invocation_type text DEFAULT 'RequestResponse', IN log_type text DEFAULT 'None',
                IN context %1$s DEFAULT NULL, IN qualifier varchar(128) DEFAULT NULL,
                OUT status_code int, OUT payload %1$s, OUT executed_version text, OUT log_result text)
            LANGUAGE sql VOLATILE
            AS $$ SELECT i.status_code, i.response::%1$s, i.executed_version, i.log_result
                  FROM aws_lambda._invoke(($1).function_name, ($1).region, $2::text, $3, $4, $5::text, $6) i $$;
        $function$, form);
    END LOOP;
END
$make$;

-- As on Aurora, nobody but the owner may invoke until it is granted.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA aws_lambda FROM PUBLIC;
