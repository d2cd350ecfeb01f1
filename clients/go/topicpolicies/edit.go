package topicpolicies

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const editAttempts = 16

// editPauses are short at first, since whoever was faster is done already.
var editPauses = RetryPolicy{InitialBackoff: 10 * time.Millisecond, MaxBackoff: 500 * time.Millisecond, Multiplier: 2}

// Edit changes a document by editing a copy of it. What differs afterwards is sent, and nothing if nothing does: leaves of objects that are
// in both, single entries of maps, lists as a whole.
//
// The change holds only if nobody else changed the document meanwhile. If somebody did, the function is called again on a fresh copy, up to
// 16 times, so it must do nothing but edit; after that it is ErrConflict. An error of the function is returned as it is, and nothing is
// sent.
//
// Options say more about the update that is sent, such as its Actor and Reason; its key, policies, mask and etag are the edit's own.
func (c *Client) Edit(ctx context.Context, key Key, change func(*TopicPolicies) error, options ...func(*Update)) (UpdateResult, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	atLeast := ""
	for attempt := 1; ; attempt++ {
		result, err := c.editOnce(ctx, key, atLeast, change, options)
		if !errors.Is(err, ErrConflict) || attempt == editAttempts {
			return result, err
		}
		var conflict *Error
		if errors.As(err, &conflict) {
			atLeast = conflict.Metadata["version"] // whoever reads for us may not have it yet
		}
		if ended := pause(ctx, editPauses.delay(attempt, rand.Float64())); ended != nil {
			return result, verdict{ended: ended}.of(fromError(err))
		}
	}
}

func (c *Client) editOnce(
	ctx context.Context, key Key, atLeast string, change func(*TopicPolicies) error, options []func(*Update),
) (UpdateResult, error) {
	document, err := c.Get(ctx, key, AtLeastVersion(atLeast))
	if err != nil {
		return UpdateResult{}, err
	}
	edited := clone(document.Policies)
	if err := change(edited); err != nil {
		return UpdateResult{}, err
	}
	mask := PathsBetween(clone(document.Policies), edited)
	if len(mask) == 0 {
		version := document.Version
		return UpdateResult{Document: document, Version: version, PreviousVersion: version, Outcome: UpdateOutcomeUnchanged}, nil
	}
	var update Update
	for _, option := range options {
		option(&update)
	}
	update.Key, update.Policies, update.Mask, update.ETag = document.Key, edited, mask, document.Version
	return c.Update(ctx, update)
}

// pause waits, unless the context ends before.
func pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
