/*
 * The connection that each session keeps open to a server on loopback.
 *
 * Before a request is sent, a kept connection that the peer has closed meanwhile is replaced; from the first byte
 * that the kernel has taken on, every failure is an error and nothing is sent again, since the function may have run.
 * Waiting obeys query cancel, statement_timeout and the death of the postmaster.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#define READ_BYTES 8192

static int	kept_socket = -1;
static char kept_endpoint[64];
static bool in_exchange = false;	/* still set on entry: an error or a cancel left half an answer in the socket */

void
connection_drop(void)
{
	if (kept_socket >= 0)
		close(kept_socket);
	kept_socket = -1;
	in_exchange = false;
}

/* Aurora's own words: "invoke API failed", with what the client met as the detail. */
void
lambda_api_failed(const char *what)
{
	connection_drop();
	ereport(ERROR,
			(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
			 errmsg("invoke API failed"),
			 errdetail("AWS Lambda client returned '%s'.", what)));
}

/* Wait until the socket is ready, the statement is cancelled (which raises), or the deadline passes (which fails). */
static void
wait_for_socket(int socket_fd, int events, TimestampTz deadline, const char *late)
{
	for (;;)
	{
		long		left_ms = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), deadline);
		int			happened;

		if (left_ms <= 0)
			lambda_api_failed(late);
		happened = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | events,
									 socket_fd, left_ms, PG_WAIT_EXTENSION);
		if (happened & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
		if (happened & events)
			return;
	}
}

/* "127.0.0.1:4566", "http://localhost:4566/" to an address; anything but loopback is refused. */
static struct sockaddr_in
loopback_address(const char *endpoint)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	char		host[64];
	int			port;

	if (strncmp(endpoint, "http://", 7) == 0)
		endpoint += 7;
	if (sscanf(endpoint, "%63[^:/]:%d", host, &port) != 2 || port < 1 || port > 65535)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("aws_lambda.endpoint_override is \"%s\", which is not host:port", endpoint),
				 errhint("Set it to the emulator's loopback address, such as 127.0.0.1:4566.")));
	if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &address.sin_addr) != 1 ||
		(ntohl(address.sin_addr.s_addr) >> 24) != 127)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("aws_lambda.endpoint_override names \"%s\", which is not a loopback address", host),
				 errhint("This stand-in talks to an emulator on this machine only.")));
	address.sin_port = htons((uint16) port);
	return address;
}

static bool
peer_has_closed(int socket_fd)
{
	char		byte;

	/* Nothing to read and no end is the only healthy state between two requests. */
	return !(recv(socket_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

/* Ready to send to this endpoint: the kept connection, unless it is stale, or a new one. */
void
connection_open(const char *endpoint, int timeout_ms)
{
	struct sockaddr_in address = loopback_address(endpoint);
	int			one = 1;
	int			failure = 0;
	socklen_t	failure_size = sizeof(failure);

	if (kept_socket >= 0 && (in_exchange || strncmp(kept_endpoint, endpoint, sizeof(kept_endpoint)) != 0 ||
							 peer_has_closed(kept_socket)))
		connection_drop();
	in_exchange = true;
	if (kept_socket >= 0)
		return;
	kept_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (kept_socket < 0)
		lambda_api_failed("Unable to create a socket");
	setsockopt(kept_socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(kept_socket, (struct sockaddr *) &address, sizeof(address)) != 0 && errno != EINPROGRESS)
		lambda_api_failed("Unable to connect to endpoint");
	wait_for_socket(kept_socket, WL_SOCKET_WRITEABLE,
					TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms), "Connection timed out");
	if (getsockopt(kept_socket, SOL_SOCKET, SO_ERROR, &failure, &failure_size) != 0 || failure != 0)
		lambda_api_failed("Unable to connect to endpoint");
	strlcpy(kept_endpoint, endpoint, sizeof(kept_endpoint));
}

void
connection_send(const char *data, size_t length, TimestampTz deadline)
{
	while (length > 0)
	{
		ssize_t		sent = send(kept_socket, data, length, MSG_NOSIGNAL);

		if (sent > 0)
		{
			data += sent;
			length -= sent;
		}
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			wait_for_socket(kept_socket, WL_SOCKET_WRITEABLE, deadline, "Request timed out");
		else if (errno != EINTR)
			lambda_api_failed("Connection lost while sending");
	}
}

/* Append what has arrived; false at the end of the stream. */
bool
connection_receive(StringInfo buffer, TimestampTz deadline)
{
	for (;;)
	{
		ssize_t		got;

		enlargeStringInfo(buffer, READ_BYTES);
		got = recv(kept_socket, buffer->data + buffer->len, READ_BYTES, 0);
		if (got > 0)
		{
			buffer->len += got;
			buffer->data[buffer->len] = '\0';
			if (buffer->len > MAX_HEADER_BYTES + MAX_BODY_BYTES)
				lambda_api_failed("Response too large");
			return true;
		}
		if (got == 0)
			return false;
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			wait_for_socket(kept_socket, WL_SOCKET_READABLE, deadline, "Request timed out");
		else if (errno != EINTR)
			lambda_api_failed("Connection lost before the answer was complete");
	}
}

/* The answer is complete: keep the connection for the next request, or not. */
void
connection_done(bool keep)
{
	in_exchange = false;
	if (!keep)
		connection_drop();
}
