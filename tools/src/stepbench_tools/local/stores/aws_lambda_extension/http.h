/* See connection.c and http.c. */
#ifndef STEPBENCH_HTTP_H
#define STEPBENCH_HTTP_H

#include "lib/stringinfo.h"
#include "utils/timestamp.h"

#define MAX_HEADER_BYTES (64 * 1024)
#define MAX_BODY_BYTES (8 * 1024 * 1024)	/* Lambda's own limit is 6 MB */

typedef struct Response
{
	int			status;
	bool		keep_alive;
	char	   *executed_version;
	char	   *log_result;
	StringInfoData body;
} Response;

/* Connects if needed, sends, and reads the whole answer; whatever goes wrong raises through lambda_api_failed. */
extern Response http_exchange(const char *endpoint, StringInfo request, int connect_timeout_ms,
							  int request_timeout_ms);

/* Raises in Aurora's words: "invoke API failed", with `what` as the detail. */
pg_noreturn extern void lambda_api_failed(const char *what);

extern void connection_open(const char *endpoint, int timeout_ms);
extern void connection_send(const char *data, size_t length, TimestampTz deadline);

/* Appends what has arrived; false at the end of the stream. */
extern bool connection_receive(StringInfo buffer, TimestampTz deadline);
extern void connection_done(bool keep);
extern void connection_drop(void);

#endif
