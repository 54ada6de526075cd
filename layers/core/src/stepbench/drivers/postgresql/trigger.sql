CREATE OR REPLACE FUNCTION {schema}.notify_receiver() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    PERFORM aws_lambda.invoke(
        aws_commons.create_lambda_function_arn({function}, {region}),
        json_build_object(
            'source', 'stepbench:postgresql',
            'event', left({identity}, 40),
            't3_us', floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint{row}),
        {invocation});
    RETURN NULL;
END
$body$;
CREATE OR REPLACE TRIGGER notify_receiver AFTER {changes} ON {schema}.records
    FOR EACH ROW {filter} EXECUTE FUNCTION {schema}.notify_receiver();
