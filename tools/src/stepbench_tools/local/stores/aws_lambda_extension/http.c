/* One HTTP/1.1 exchange. */
#include "postgres.h"

#include "http.h"

static void
need(StringInfo buffer, size_t length, TimestampTz deadline)
{
	while ((size_t) buffer->len < length)
		if (!connection_receive(buffer, deadline))
			lambda_api_failed("Connection closed before the answer was complete");
}

/* Offset just after the next CRLF that ends a line beginning at `from`. */
static size_t
need_line(StringInfo buffer, size_t from, TimestampTz deadline)
{
	size_t		seen = from;

	for (;;)
	{
		char	   *end = memmem(buffer->data + seen, buffer->len - seen, "\r\n", 2);

		if (end)
			return end - buffer->data + 2;
		if ((size_t) buffer->len > from + MAX_HEADER_BYTES)
			lambda_api_failed("Malformed response: endless line");
		seen = Max(from, Max((size_t) buffer->len, 1) - 1);	/* a CR may be there, its LF not yet */
		need(buffer, buffer->len + 1, deadline);
	}
}

static long
parse_length(const char *text, int radix)
{
	char	   *end;
	long		length;

	errno = 0;
	length = strtol(text, &end, radix);
	if (end == text || errno != 0 || length < 0 || length > MAX_BODY_BYTES || strchr("; \t\r", *end) == NULL)
		lambda_api_failed("Malformed response: length");
	return length;
}

static void
read_chunks(StringInfo buffer, size_t at, TimestampTz deadline, StringInfo body)
{
	for (;;)
	{
		size_t		data = need_line(buffer, at, deadline);
		long		length = parse_length(buffer->data + at, 16);

		if (length == 0)
		{
			size_t		end;

			while ((end = need_line(buffer, data, deadline)) != data + 2)
				data = end;		/* trailers */
			return;
		}
		need(buffer, data + length + 2, deadline);
		appendBinaryStringInfo(body, buffer->data + data, length);
		if (body->len > MAX_BODY_BYTES)
			lambda_api_failed("Response too large");
		if (memcmp(buffer->data + data + length, "\r\n", 2) != 0)
			lambda_api_failed("Malformed response: chunk");
		at = data + length + 2;
	}
}

/* If the header line has this name (given in lower case), its value without surrounding blanks. */
static char *
header_value(const char *line, size_t length, const char *name)
{
	size_t		size = strlen(name);
	const char *from = line + size + 1;
	const char *to = line + length - 2;

	if (length < size + 3 || pg_strncasecmp(line, name, size) != 0 || line[size] != ':')
		return NULL;
	while (from < to && (*from == ' ' || *from == '\t'))
		from++;
	while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
		to--;
	return pnstrdup(from, to - from);
}

static void
read_response(Response *response, TimestampTz deadline)
{
	StringInfoData buffer;
	size_t		at,
				end;
	int			minor;
	long		length;
	bool		chunked;

	initStringInfo(&buffer);
	initStringInfo(&response->body);
	at = 0;
	do							/* 1xx answers come before the real one */
	{
		size_t		line = at;

		at = need_line(&buffer, line, deadline);
		if (sscanf(buffer.data + line, "HTTP/1.%1d %3d", &minor, &response->status) != 2)
			lambda_api_failed("Malformed response: status line");
		length = -1;
		chunked = false;
		response->keep_alive = minor >= 1;
		while ((end = need_line(&buffer, at, deadline)) != at + 2)
		{
			const char *text = buffer.data + at;
			char	   *value;

			if ((value = header_value(text, end - at, "content-length")))
				length = parse_length(value, 10);
			else if ((value = header_value(text, end - at, "transfer-encoding")))
				chunked = pg_strcasecmp(value, "chunked") == 0;
			else if ((value = header_value(text, end - at, "connection")))
				response->keep_alive = pg_strcasecmp(value, "close") != 0 &&
					(minor >= 1 || pg_strcasecmp(value, "keep-alive") == 0);
			else if ((value = header_value(text, end - at, "x-amz-executed-version")))
				response->executed_version = value;
			else if ((value = header_value(text, end - at, "x-amz-log-result")))
				response->log_result = value;
			at = end;
		}
		at = end;
	} while (response->status < 200);

	if (response->status == 204 || response->status == 304)
		return;
	if (chunked)
		read_chunks(&buffer, at, deadline, &response->body);
	else if (length >= 0)
	{
		need(&buffer, at + length, deadline);
		appendBinaryStringInfo(&response->body, buffer.data + at, length);
	}
	else						/* the end of the stream ends the body */
	{
		response->keep_alive = false;
		while (connection_receive(&buffer, deadline))
			;
		appendBinaryStringInfo(&response->body, buffer.data + at, buffer.len - at);
	}
}

Response
http_exchange(const char *endpoint, StringInfo request, int connect_timeout_ms, int request_timeout_ms)
{
	Response	response = {0};
	TimestampTz deadline;

	connection_open(endpoint, connect_timeout_ms);
	deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), request_timeout_ms);
	connection_send(request->data, request->len, deadline);
	read_response(&response, deadline);
	connection_done(response.keep_alive);
	return response;
}
