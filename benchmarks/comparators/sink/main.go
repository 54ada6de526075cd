// Sink answers every HTTP/1.1 request with 200 and `{}`, as DynamoDB acknowledges a PutItem, as cheaply as it can.
//
// It prints where it listens as one line of JSON, and ends with its standard input, so that it never outlives whoever
// started it.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// Of a date; the checksum is that of `{}`. SDKs look at both.
const answerFormat = "HTTP/1.1 200 OK\r\n" +
	"Server: Server\r\n" +
	"Date: %s\r\n" +
	"Content-Type: application/x-amz-json-1.0\r\n" +
	"Content-Length: 2\r\n" +
	"Connection: keep-alive\r\n" +
	"x-amzn-RequestId: 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEF\r\n" +
	"x-amz-crc32: 2745614147\r\n" +
	"\r\n" +
	"{}"

const bufferBytes = 64 << 10

var (
	answer     atomic.Pointer[[]byte] // renewed every second
	headEnd    = []byte("\r\n\r\n")
	lengthName = []byte("content-length:")
)

func main() {
	certificate := flag.String("certificate", "", "PEM file; with -key: listen for TLS, too")
	key := flag.String("key", "", "PEM file")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	renewAnswer()
	go func() {
		for range time.Tick(time.Second) {
			renewAnswer()
		}
	}()

	where := map[string]string{"plain": serve(listen())}
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		where["tls"] = serve(tls.NewListener(listen(), &tls.Config{Certificates: []tls.Certificate{pair}}))
	}
	if err := json.NewEncoder(os.Stdout).Encode(where); err != nil {
		log.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func renewAnswer() {
	renewed := fmt.Appendf(nil, answerFormat, time.Now().UTC().Format(http.TimeFormat))
	answer.Store(&renewed)
}

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func serve(listener net.Listener) string {
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				log.Fatal(err)
			}
			go answerAll(connection)
		}
	}()
	return listener.Addr().String()
}

// answerAll reads one request after the other, each less than the buffer holds, and sent when the last was answered.
func answerAll(connection net.Conn) {
	defer connection.Close()
	buffer, held := make([]byte, bufferBytes), 0
	for held < len(buffer) {
		read, err := connection.Read(buffer[held:])
		if err != nil {
			return
		}
		held += read
		end := requestEnd(buffer[:held])
		if end < 0 {
			continue
		}
		held = copy(buffer, buffer[end:held])
		if _, err := connection.Write(*answer.Load()); err != nil {
			return
		}
	}
}

// requestEnd is where the first request ends, or -1 if not all of it is there.
func requestEnd(received []byte) int {
	head := bytes.Index(received, headEnd)
	if head < 0 {
		return -1
	}
	end := head + len(headEnd) + contentLength(received[:head+2])
	if end > len(received) {
		return -1
	}
	return end
}

func contentLength(head []byte) int {
	for len(head) > 0 {
		end := bytes.IndexByte(head, '\n')
		line := head[:end]
		if len(line) > len(lengthName) && bytes.EqualFold(line[:len(lengthName)], lengthName) {
			length, err := strconv.Atoi(string(bytes.TrimSpace(line[len(lengthName):])))
			if err != nil {
				return 0
			}
			return length
		}
		head = head[end+1:]
	}
	return 0
}
