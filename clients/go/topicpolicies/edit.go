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
// The change holds only if nobody else changed the document meanwhile. If somebody did, the function is called again on a fresh copy, up to 16
// times, so it must do nothing but edit; after that it is ErrConflict. An error of the function is returned as it is, and nothing is sent.
func (c *Client) Edit(ctx context.Context, key Key, change func(*TopicPolicies) error) (UpdateResult, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	atLeast := ""
	for attempt := 1; ; attempt++ {
		result, err := c.editOnce(ctx, key, atLeast, change)
		if !errors.Is(err, ErrConflict) || attempt == editAttempts {
			return result, err
		}
		var conflict *Error
		if errors.As(err, &conflict) {
			atLeast = conflict.Metadata["version"] // whoever reads for us may not have it yet
		}
		if pause(ctx, editPauses.delay(attempt, rand.Float64())) != nil {
			return result, err
		}
	}
}

func (c *Client) editOnce(ctx context.Context, key Key, atLeast string, change func(*TopicPolicies) error) (UpdateResult, error) {
	document, err := c.GetAtLeast(ctx, key, atLeast)
	if err != nil {
		return UpdateResult{}, err
	}
	edited := clone(document.Policies)
	if err := change(edited); err != nil {
		return UpdateResult{}, err
	}
	mask := PathsBetween(clone(document.Policies), edited)
	if len(mask) == 0 {
		return UpdateResult{Document: document, PreviousVersion: document.Version, Outcome: Unchanged}, nil
	}
	return c.Update(ctx, Update{Key: document.Key, Policies: edited, Mask: mask, Etag: document.Version})
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
