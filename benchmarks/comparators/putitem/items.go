package main

import (
	"fmt"
	"math/rand/v2"
)

// As in the trials of this project: the event's identity, 40 characters, at the head of key and value, filler after it.
const (
	keyBytes   = 59
	valueBytes = 889
	idBytes    = 40
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// newItems makes the keys and values of one writer, one after the other.
func newItems(writer int) func() (key, value string) {
	random, filler := rand.New(rand.NewPCG(7, 7)), make([]byte, valueBytes-idBytes)
	for at := range filler {
		filler[at] = letters[random.IntN(len(letters))]
	}
	fill, sequence := string(filler), 0
	return func() (string, string) {
		id := fmt.Sprintf("benchmarks-0000/00-%04x-0000-00-%08x", writer, sequence)
		sequence++
		return id + fill[:keyBytes-idBytes], id + fill
	}
}
