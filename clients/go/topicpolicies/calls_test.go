package topicpolicies

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "topicpolicies.example/clients/go/topicpolicies/v1"
)

var oneField = Update{Key: Key{Topic: "persistent://t/n/x"}, Policies: &TopicPolicies{MaxProducerPerTopic: proto.Int32(1)}}

func fromTheService(code codes.Code, reason string) error {
	failure, err := status.New(code, "A sentence.").WithDetails(&errdetails.ErrorInfo{Domain: domain, Reason: reason})
	if err != nil {
		panic(err)
	}
	return failure.Err()
}

func quick(client *settings) {
	client.retries = RetryPolicy{MaxAttempts: 5, InitialBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond, Multiplier: 2}
	client.pauses = client.retries
}

func TestAnUpdateIsRepeatedWithTheSameRequestIDWhenTheServiceIsUnavailable(t *testing.T) {
	fake := &fakeService{update: func(_ context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
		if attempt < 4 {
			return nil, status.Error(codes.Unavailable, "not now")
		}
		return &pb.UpdatePolicyResponse{Version: "2"}, nil
	}}
	result, err := open(t, fake.serve(t), quick).Update(t.Context(), oneField)
	if err != nil || result.Version != "2" {
		t.Fatal(result, err)
	}
	if len(fake.requests) != 4 {
		t.Fatalf("%d attempts", len(fake.requests))
	}
	for _, request := range fake.requests {
		if request.GetRequestId() == "" || request.GetRequestId() != fake.requests[0].GetRequestId() {
			t.Errorf("request ids %q and %q", fake.requests[0].GetRequestId(), request.GetRequestId())
		}
	}
}

func TestAPermanentFailureIsNotRepeated(t *testing.T) {
	for code, kind := range map[codes.Code]error{
		codes.InvalidArgument:    ErrInvalidArgument,
		codes.Aborted:            ErrConflict,
		codes.FailedPrecondition: ErrFailedPrecondition,
		codes.ResourceExhausted:  ErrResourceExhausted,
		codes.PermissionDenied:   ErrPermissionDenied,
		codes.Unauthenticated:    ErrPermissionDenied,
		codes.NotFound:           ErrNotFound,
	} {
		fake := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) {
			return nil, fromTheService(code, "A_REASON")
		}}
		_, err := open(t, fake.serve(t), quick).Update(t.Context(), oneField)
		var failure *Error
		if !errors.Is(err, kind) || !errors.As(err, &failure) || failure.Reason != "A_REASON" || !failure.FromService ||
			status.Code(err) != code {
			t.Errorf("%s became %#v", code, err)
		}
		if len(fake.requests) != 1 {
			t.Errorf("%s: %d attempts", code, len(fake.requests))
		}
	}
}

func TestWithNoRetriesNothingIsRepeated(t *testing.T) {
	fake := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) {
		return nil, fromTheService(codes.Unavailable, "LOG")
	}}
	_, err := open(t, fake.serve(t), WithRetries(NoRetries)).Update(t.Context(), oneField)
	if !errors.Is(err, ErrUnavailable) || len(fake.requests) != 1 {
		t.Errorf("%v after %d attempts", err, len(fake.requests))
	}
}

func TestAChangeThatWasSentAndNotAnsweredHasAnUnknownOutcomeAndCanBeRepeated(t *testing.T) {
	fake := &fakeService{update: func(ctx context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
		if attempt == 1 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return &pb.UpdatePolicyResponse{Replayed: true}, nil
	}}
	client := open(t, fake.serve(t), WithTimeout(2*time.Second))
	_, err := client.Update(t.Context(), oneField)
	var failure *Error
	if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) ||
		!errors.As(err, &failure) {
		t.Fatalf("%#v", err)
	}
	again := oneField
	again.RequestID = failure.RequestID
	if result, err := client.Update(t.Context(), again); err != nil || !result.Replayed {
		t.Fatal(result, err)
	}
	if id := fake.requests[0].GetRequestId(); id != failure.RequestID || id != fake.requests[1].GetRequestId() {
		t.Errorf("the error names %q, sent were %q and %q", failure.RequestID, id, fake.requests[1].GetRequestId())
	}
}

func TestTheOutcomeIsUnknownIfTheServiceIsUnavailableAfterABrokenAttempt(t *testing.T) {
	fake := &fakeService{update: func(_ context.Context, attempt int) (*pb.UpdatePolicyResponse, error) {
		if attempt == 1 {
			return nil, status.Error(codes.Unavailable, "a proxy's own words") // it is not known what the service did
		}
		return nil, fromTheService(codes.Unavailable, "LOG_UNAVAILABLE")
	}}
	_, err := open(t, fake.serve(t), quick).Update(t.Context(), oneField)
	if !errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrUnavailable) || len(fake.requests) != 5 {
		t.Errorf("%v after %d attempts", err, len(fake.requests))
	}
}

func TestAChangeThatTheServiceAlwaysRefusesIsReportedAsNotMade(t *testing.T) {
	fake := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) {
		return nil, fromTheService(codes.Unavailable, "LOG")
	}}
	_, err := open(t, fake.serve(t), quick).Update(t.Context(), oneField)
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || len(fake.requests) != 5 {
		t.Errorf("%v after %d attempts", err, len(fake.requests))
	}
}

func TestAChangeWithoutAConnectionIsReportedAsNotMade(t *testing.T) {
	_, err := open(t, unusedAddress(t), WithTimeout(300*time.Millisecond)).Update(t.Context(), oneField)
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("%v", err)
	}
}

// unusedAddress returns an address at which nothing listens.
func unusedAddress(t *testing.T) string {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = probe.Close()
	return probe.Addr().String()
}

func TestACancelledReadFailsWithTheContextsError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, (&fakeService{}).serve(t)).Get(ctx, oneField.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestEveryCallSendsTheActorAndAFreshToken(t *testing.T) {
	fake := &fakeService{update: func(context.Context, int) (*pb.UpdatePolicyResponse, error) { return &pb.UpdatePolicyResponse{}, nil }}
	tokens := 0
	client := open(t, fake.serve(t), WithActor("retention-bot"), WithToken(func(context.Context) (string, error) {
		tokens++
		return "secret-" + string(rune('0'+tokens)), nil
	}))
	for range 2 {
		if _, err := client.Update(t.Context(), oneField); err != nil {
			t.Fatal(err)
		}
	}
	for i, sent := range fake.metadata {
		want := "Bearer secret-" + string(rune('1'+i))
		if actor, token := sent.Get("topicpolicies-actor"), sent.Get("authorization"); len(actor) != 1 || actor[0] != "retention-bot" ||
			len(token) != 1 || token[0] != want {
			t.Errorf("sent %q and %q", actor, token)
		}
	}
}

func TestATokenIsNotSentInTheClearToAnotherMachine(t *testing.T) {
	token := WithToken(func(context.Context) (string, error) { return "secret", nil })
	_, err := New("192.0.2.1:6680", WithoutTLS(), token)
	var refused *Error
	if !errors.Is(err, ErrInvalidArgument) || !errors.As(err, &refused) || refused.Reason != "TOKEN_IN_THE_CLEAR" {
		t.Error(err)
	}
	if _, err = New("192.0.2.1:6680", WithoutTLS(), token, WithDialOptions(grpc.WithUserAgent("x"))); err == nil {
		t.Error("the token was accepted without TLS")
	}
}

func TestAMalformedActorAndAnInvalidRetryPolicyAreRefused(t *testing.T) {
	for _, options := range [][]Option{
		{WithActor("größe")}, {WithActor(" x")}, {WithActor("a\nb")},
		{WithRetries(RetryPolicy{})}, {WithRetries(RetryPolicy{MaxAttempts: 6, InitialBackoff: 1, MaxBackoff: 1, Multiplier: 1})},
	} {
		if _, err := New("", options...); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%v", err)
		}
	}
}

func TestCallsUseTLSWithAPrivateCertificateAuthority(t *testing.T) {
	certificate, authority := selfSigned(t)
	fake := &fakeService{}
	address := fake.serve(t, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
	if _, err := open(t, address, WithTLS(&tls.Config{RootCAs: authority, ServerName: "sidecar"})).Get(t.Context(), oneField.Key); err != nil {
		t.Error(err)
	}
	untrusting := open(t, address, WithTLS(&tls.Config{RootCAs: x509.NewCertPool(), ServerName: "sidecar"}), WithRetries(NoRetries))
	if _, err := untrusting.Get(t.Context(), oneField.Key); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a server of an unknown authority: %v", err)
	}
}

func TestTargetsOnThisMachineAreRecognized(t *testing.T) {
	for target, local := range map[string]bool{
		"localhost:6680": true, "127.0.0.1:1": true, "[::1]:1": true, "unix:/tmp/x": true, "unix-abstract:x": true, "dns:localhost:1": true, "dns:///localhost:1": true,
		"passthrough:///127.0.0.5:1": true, "example:1": false, "10.0.0.1:1": false, "localhost.example:1": false,
	} {
		if isLocal(target) != local {
			t.Errorf("%s: local is %t", target, !local)
		}
	}
}

func TestPausesGrowAndStayInTheUpperHalfOfTheirLimit(t *testing.T) {
	for attempt, ceiling := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 7: 5 * time.Second, 1000: 5 * time.Second,
	} {
		if least, most := DefaultRetries.delay(attempt, 0), DefaultRetries.delay(attempt, 0.999999); least != ceiling/2 || most > ceiling ||
			most < ceiling*9/10 {
			t.Errorf("attempt %d: from %s to %s", attempt, least, most)
		}
	}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"sidecar"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
