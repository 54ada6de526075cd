package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net"
	"strconv"
	"time"
)

const (
	contentType   = "application/x-amz-json-1.0"
	target        = "DynamoDB_20120810.PutItem"
	signedHeaders = "content-type;host;x-amz-date;x-amz-target"
	bufferBytes   = 16 << 10
)

// socket is a connection with what it needs to sign and send without allocating: buffers, and the day's derived key.
type socket struct {
	connection              net.Conn
	host, table             string
	second                  int64
	date, scope, credential string
	signature, digest       hash.Hash
	body, canonical, toSign []byte
	request, answer, sum    []byte
}

func rawPutters(endpoint, table string, trust *tls.Config) (func() (putter, error), error) {
	return func() (putter, error) {
		dial := func() (net.Conn, error) { return net.Dial("tcp", endpoint) }
		if trust != nil {
			dial = func() (net.Conn, error) { return tls.Dial("tcp", endpoint, trust) }
		}
		connection, err := dial()
		if err != nil {
			return nil, err
		}
		made := &socket{connection: connection, host: endpoint, table: table}
		made.digest, made.answer = sha256.New(), make([]byte, bufferBytes)
		return made.put, nil
	}, nil
}

func (s *socket) put(key, value string) error {
	s.body = append(s.body[:0], `{"TableName":"`...)
	s.body = append(s.body, s.table...)
	s.body = append(s.body, `","Item":{"pk":{"S":"`...)
	s.body = append(s.body, key...) // neither needs an escape
	s.body = append(s.body, `"},"value":{"S":"`...)
	s.body = append(s.body, value...)
	s.body = append(s.body, `"}}}`...)
	s.sign(time.Now())
	if _, err := s.connection.Write(s.request); err != nil {
		return err
	}
	return s.readAnswer()
}

// sign fills request with the signed head and the body: Signature Version 4.
func (s *socket) sign(now time.Time) {
	if second := now.Unix(); second != s.second {
		s.second = second
		s.renew(now.UTC())
	}
	s.canonical = append(s.canonical[:0], "POST\n/\n\ncontent-type:"+contentType+"\nhost:"...)
	s.canonical = append(s.canonical, s.host...)
	s.canonical = append(s.canonical, "\nx-amz-date:"...)
	s.canonical = append(s.canonical, s.date...)
	s.canonical = append(s.canonical, "\nx-amz-target:"+target+"\n\n"+signedHeaders+"\n"...)
	s.canonical = s.appendHash(s.canonical, s.body)

	s.toSign = append(s.toSign[:0], "AWS4-HMAC-SHA256\n"...)
	s.toSign = append(s.toSign, s.date...)
	s.toSign = append(s.toSign, '\n')
	s.toSign = append(s.toSign, s.scope...)
	s.toSign = append(s.toSign, '\n')
	s.toSign = s.appendHash(s.toSign, s.canonical)

	s.signature.Reset()
	s.signature.Write(s.toSign)
	s.sum = s.signature.Sum(s.sum[:0])

	s.request = append(s.request[:0], "POST / HTTP/1.1\r\nhost: "...)
	s.request = append(s.request, s.host...)
	s.request = append(s.request, "\r\ncontent-type: "+contentType+"\r\nx-amz-target: "+target+"\r\nx-amz-date: "...)
	s.request = append(s.request, s.date...)
	s.request = append(s.request, "\r\nauthorization: AWS4-HMAC-SHA256 Credential="...)
	s.request = append(s.request, s.credential...)
	s.request = append(s.request, ", SignedHeaders="+signedHeaders+", Signature="...)
	s.request = hex.AppendEncode(s.request, s.sum)
	s.request = append(s.request, "\r\ncontent-length: "...)
	s.request = strconv.AppendInt(s.request, int64(len(s.body)), 10)
	s.request = append(s.request, "\r\n\r\n"...)
	s.request = append(s.request, s.body...)
}

// renew does what is the same for a second (the date) or a day (the derived key).
func (s *socket) renew(now time.Time) {
	s.date = now.Format("20060102T150405Z")
	scope := s.date[:8] + "/" + region + "/dynamodb/aws4_request"
	if scope == s.scope {
		return
	}
	s.scope, s.credential = scope, accessKey+"/"+scope
	key := []byte("AWS4" + secretKey)
	for _, part := range []string{s.date[:8], region, "dynamodb", "aws4_request"} {
		derived := hmac.New(sha256.New, key)
		derived.Write([]byte(part))
		key = derived.Sum(nil)
	}
	s.signature = hmac.New(sha256.New, key)
}

func (s *socket) appendHash(to, of []byte) []byte {
	s.digest.Reset()
	s.digest.Write(of)
	s.sum = s.digest.Sum(s.sum[:0])
	return hex.AppendEncode(to, s.sum)
}

var (
	headEnd    = []byte("\r\n\r\n")
	lengthName = []byte("\r\ncontent-length:")
	okay       = []byte("HTTP/1.1 200 ")
)

// readAnswer reads one whole answer, and is content with nothing but 200.
func (s *socket) readAnswer() error {
	for held := 0; held < len(s.answer); {
		read, err := s.connection.Read(s.answer[held:])
		if err != nil {
			return err
		}
		held += read
		head := bytes.Index(s.answer[:held], headEnd)
		if head < 0 {
			continue
		}
		length, err := contentLength(s.answer[:head+2])
		if err != nil {
			return err
		}
		if held < head+len(headEnd)+length {
			continue
		}
		if !bytes.HasPrefix(s.answer, okay) {
			return fmt.Errorf("answered %q", s.answer[:held])
		}
		return nil
	}
	return errors.New("an answer longer than any to PutItem")
}

// contentLength finds the header whatever its case, as HTTP wants it.
func contentLength(head []byte) (int, error) {
	for at := bytes.IndexByte(head, '\r'); at >= 0 && at+len(lengthName) < len(head); {
		if bytes.EqualFold(head[at:at+len(lengthName)], lengthName) {
			value := head[at+len(lengthName):]
			return strconv.Atoi(string(bytes.TrimSpace(value[:bytes.IndexByte(value, '\r')])))
		}
		next := bytes.IndexByte(head[at+1:], '\r')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return 0, errors.New("an answer without Content-Length")
}
