/*
 * Loaded ahead of libc (LD_PRELOAD): whoever listens on every interface listens on loopback only.
 *
 * LocalStack's gateway and DynamoDB Local have no setting for it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

int bind(int socket, const struct sockaddr *address, socklen_t length) {
  static int (*stock)(int, const struct sockaddr *, socklen_t);
  struct sockaddr_storage local = {0};
  struct sockaddr_in *v4 = (struct sockaddr_in *)&local;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&local;

  if (!stock) stock = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind");
  if (!address || length > sizeof local) return stock(socket, address, length);
  memcpy(&local, address, length);
  if (local.ss_family == AF_INET && v4->sin_addr.s_addr == htonl(INADDR_ANY))
    v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (local.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr))
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &v6->sin6_addr); /* also for those who come by IPv4, as they all do here */
  return stock(socket, (struct sockaddr *)&local, length);
}
