/*
 * Local stand-in for the C function behind Aurora's aws_lambda.invoke.
 *
 * It POSTs to the Lambda API of an emulator on loopback, from inside the backend and inside the transaction, as
 * Aurora does. The settings have Aurora's names and defaults; aws_lambda.endpoint_override ("127.0.0.1:4566") has to
 * be set, since the default of AWS's own endpoint makes no sense here.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "http.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(aws_lambda_invoke);
void		_PG_init(void);

static char *endpoint_override = NULL;
static int	connect_timeout_ms = 1000;
static int	request_timeout_ms = 3000;

enum
{
	FUNCTION_NAME, REGION, PAYLOAD, INVOCATION_TYPE, LOG_TYPE, CONTEXT, QUALIFIER
};

void
_PG_init(void)
{
	DefineCustomStringVariable("aws_lambda.endpoint_override", "Lambda endpoint on loopback, host:port.", NULL,
							   &endpoint_override, "", PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("aws_lambda.connect_timeout_ms", "Limit for connecting to the endpoint.", NULL,
							&connect_timeout_ms, 1000, 1, 900000, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("aws_lambda.request_timeout_ms", "Limit for a request and its answer.", NULL,
							&request_timeout_ms, 3000, 1, 900000, PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	MarkGUCPrefixReserved("aws_lambda");
}

static char *
text_argument(FunctionCallInfo fcinfo, int index)
{
	return PG_ARGISNULL(index) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(index));
}

static void
append_url_encoded(StringInfo url, const char *text)
{
	for (; *text; text++)
	{
		unsigned char c = (unsigned char) *text;

		if (isalnum(c) || strchr("-_.~", c))
			appendStringInfoChar(url, (char) c);
		else
			appendStringInfo(url, "%%%02X", c);
	}
}

/* A header's value must not be able to end its line and begin another header. */
static void
append_header(StringInfo request, const char *name, const char *value)
{
	if (value == NULL)
		return;
	if (strpbrk(value, "\r\n"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("aws_lambda.invoke: line break in %s", name)));
	appendStringInfo(request, "%s: %s\r\n", name, value);
}

static void
append_client_context(StringInfo request, const char *context)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t		length = context ? strlen(context) : 0;

	if (context == NULL)
		return;
	appendStringInfoString(request, "X-Amz-Client-Context: ");
	for (size_t at = 0; at < length; at += 3)
	{
		size_t		left = length - at;
		uint32		bits = (uint32) (unsigned char) context[at] << 16;

		bits |= left > 1 ? (uint32) (unsigned char) context[at + 1] << 8 : 0;
		bits |= left > 2 ? (uint32) (unsigned char) context[at + 2] : 0;
		appendStringInfoChar(request, digits[bits >> 18]);
		appendStringInfoChar(request, digits[bits >> 12 & 63]);
		appendStringInfoChar(request, left > 1 ? digits[bits >> 6 & 63] : '=');
		appendStringInfoChar(request, left > 2 ? digits[bits & 63] : '=');
	}
	appendStringInfoString(request, "\r\n");
}

/* "Possible values" of Aurora's reference; they are case-sensitive. */
static void
check_choice(const char *name, const char *value, const char *choices[])
{
	for (; value != NULL && *choices; choices++)
		if (strcmp(value, *choices) == 0)
			return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("aws_lambda.invoke: %s must not be \"%s\"", name, value ? value : "NULL")));
}

/* The region from `region`, from the function's ARN, or the default; a contradiction is an error, as on Aurora. */
static const char *
region_of(const char *function_name, const char *region)
{
	char		of_arn[32];

	if (sscanf(function_name, "arn:%*[^:]:lambda:%31[^:]:", of_arn) != 1)
		return region ? region : "us-east-1";
	if (region && strcmp(region, of_arn) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("aws_lambda.invoke: region \"%s\" contradicts the ARN's \"%s\"", region, of_arn)));
	return pstrdup(of_arn);
}

static StringInfo
build_request(char *arguments[])
{
	StringInfo	request = makeStringInfo();
	const char *function_name = arguments[FUNCTION_NAME];
	const char *region = region_of(function_name, arguments[REGION]);

	appendStringInfoString(request, "POST /2015-03-31/functions/");
	append_url_encoded(request, function_name);
	appendStringInfoString(request, "/invocations");
	if (arguments[QUALIFIER])
	{
		appendStringInfoString(request, "?Qualifier=");
		append_url_encoded(request, arguments[QUALIFIER]);
	}
	appendStringInfoString(request, " HTTP/1.1\r\n");
	append_header(request, "Host", endpoint_override);
	append_header(request, "Content-Type", "application/json");
	append_header(request, "X-Amz-Invocation-Type", arguments[INVOCATION_TYPE]);
	append_header(request, "X-Amz-Log-Type", arguments[LOG_TYPE]);
	append_client_context(request, arguments[CONTEXT]);
	/* Emulators read service, region and account from here and check no signature. */
	append_header(request, "Authorization",
				  psprintf("AWS4-HMAC-SHA256 Credential=test/20260101/%s/lambda/aws4_request, SignedHeaders=host, "
						   "Signature=0", region));
	appendStringInfo(request, "Content-Length: %zu\r\n\r\n%s", strlen(arguments[PAYLOAD]), arguments[PAYLOAD]);
	return request;
}

Datum
aws_lambda_invoke(PG_FUNCTION_ARGS)
{
	char	   *arguments[QUALIFIER + 1];
	Response	response;
	TupleDesc	row;
	Datum		values[4];
	bool		nulls[4];

	for (int index = 0; index <= QUALIFIER; index++)
		arguments[index] = text_argument(fcinfo, index);
	if (arguments[FUNCTION_NAME] == NULL || arguments[PAYLOAD] == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("aws_lambda.invoke: function_name and payload must not be NULL")));
	check_choice("invocation_type", arguments[INVOCATION_TYPE],
				 (const char *[]) {"RequestResponse", "Event", "DryRun", NULL});
	check_choice("log_type", arguments[LOG_TYPE], (const char *[]) {"None", "Tail", NULL});
	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "aws_lambda_invoke must return a row");

	response = http_exchange(endpoint_override, build_request(arguments), connect_timeout_ms, request_timeout_ms);
	pg_verifymbstr(response.body.data, response.body.len, false);
	if (response.status >= 300)
		lambda_api_failed(psprintf("HTTP %d: %s", response.status, response.body.data));

	values[0] = Int32GetDatum(response.status);
	nulls[0] = false;
	nulls[1] = response.body.len == 0;
	values[1] = nulls[1] ? (Datum) 0 : PointerGetDatum(cstring_to_text_with_len(response.body.data, response.body.len));
	nulls[2] = response.executed_version == NULL;
	values[2] = nulls[2] ? (Datum) 0 : CStringGetTextDatum(response.executed_version);
	nulls[3] = response.log_result == NULL;
	values[3] = nulls[3] ? (Datum) 0 : CStringGetTextDatum(response.log_result);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls)));
}
