package topicpolicies

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const editAttempts = 16

// editPauses are short at first: the writer that was faster has already finished.
var editPauses = RetryPolicy{InitialBackoff: 10 * time.Millisecond, MaxBackoff: 500 * time.Millisecond, Multiplier: 2}

// Edit changes a document by editing a copy of it. Only the difference is sent, and nothing if there is none: single fields of messages
// that both documents have, single entries of maps, and lists as a whole.
//
// The change is made only if no other writer has changed the document meanwhile. If one has, the function is called again with a fresh
// copy, up to 16 times in all, so it must do nothing but edit; after that the error is ErrConflict. An error of the function is returned as
// it is, and nothing is sent.
//
// Options set further fields of the update, such as Actor and Reason; its key, policies, mask and etag are set by Edit.
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
			atLeast = conflict.Metadata["version"] // the server that answers reads may not have this version yet
		}
		if ended := c.line.pause(ctx, editPauses.delay(attempt, rand.Float64())); errors.Is(ended, ErrClosed) {
			return result, ended
		} else if ended != nil {
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
	var update Update
	for _, option := range options {
		option(&update)
	}
	mask := PathsBetween(clone(document.Policies), edited)
	if len(mask) == 0 {
		version := document.Version
		result := UpdateResult{Document: document, Version: version, PreviousVersion: version, Outcome: UpdateOutcomeUnchanged}
		if update.IncludePrevious {
			result.Previous = &document
		}
		return result, nil
	}
	update.Key, update.Policies, update.Mask, update.ETag = document.Key, edited, mask, document.Version
	return c.Update(ctx, update)
}
