package main

import (
	"context"
	"crypto/tls"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// sdkPutters share one client, as the SDK wants it.
func sdkPutters(endpoint, table string, trust *tls.Config) (func() (putter, error), error) {
	transport, url := awshttp.NewBuildableClient(), "http://"+endpoint
	if trust != nil {
		url = "https://" + endpoint
		transport = transport.WithTransportOptions(func(options *http.Transport) {
			options.TLSClientConfig.RootCAs = trust.RootCAs
		})
	}
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(url),
		Credentials:  credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
		HTTPClient:   transport,
		Region:       region,
	})
	put := func(key, value string) error {
		_, err := client.PutItem(context.Background(), &dynamodb.PutItemInput{
			TableName: aws.String(table),
			Item: map[string]types.AttributeValue{
				"pk":    &types.AttributeValueMemberS{Value: key},
				"value": &types.AttributeValueMemberS{Value: value},
			},
		})
		return err
	}
	return func() (putter, error) { return put, nil }, nil
}
