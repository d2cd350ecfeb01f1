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
// Options set further fields of the update, such as Actor and Reason; its key, policies, mask and etag are set by Edit. With SkipIfAbsent
// the function is not called where there is no document.
func (c *Client) Edit(ctx context.Context, key Key, change func(*TopicPolicies) error, options ...func(*Update)) (UpdateResult, error) {
	return c.edit(ctx, key, nil, change, options)
}

// EditFrom is Edit with a known document to begin with, such as one of a cache, which saves reading it first.
func (c *Client) EditFrom(
	ctx context.Context, start PolicyDocument, change func(*TopicPolicies) error, options ...func(*Update),
) (UpdateResult, error) {
	return c.edit(ctx, start.Key, &start, change, options)
}

func (c *Client) edit(
	ctx context.Context, key Key, start *PolicyDocument, change func(*TopicPolicies) error, options []func(*Update),
) (UpdateResult, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	atLeast := ""
	for attempt := 1; ; attempt++ {
		result, sent, err := c.editOnce(ctx, key, start, atLeast, change, options)
		if !sent || !errors.Is(err, ErrConflict) || attempt == editAttempts {
			return result, err
		}
		start = nil
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

// editOnce makes one attempt. sent reports whether the error, if there is one, is that of the update: one of the function may look the same.
func (c *Client) editOnce(
	ctx context.Context, key Key, start *PolicyDocument, atLeast string, change func(*TopicPolicies) error, options []func(*Update),
) (result UpdateResult, sent bool, err error) {
	document, err := c.startOf(ctx, key, start, atLeast)
	if err != nil {
		return UpdateResult{}, false, err
	}
	var update Update
	for _, option := range options {
		option(&update)
	}
	if update.SkipIfAbsent && !document.Exists() {
		return unsent(document, UpdateOutcomeSkipped, update), false, nil
	}
	edited := clone(document.Policies)
	if err := change(edited); err != nil {
		return UpdateResult{}, false, err
	}
	mask := PathsBetween(clone(document.Policies), edited)
	if len(mask) == 0 {
		return unsent(document, UpdateOutcomeUnchanged, update), false, nil
	}
	update.Key, update.Policies, update.Mask, update.ETag = document.Key, edited, mask, document.Version
	result, err = c.Update(ctx, update)
	return result, true, err
}

// startOf returns the document to edit.
func (c *Client) startOf(ctx context.Context, key Key, start *PolicyDocument, atLeast string) (PolicyDocument, error) {
	if start != nil {
		return *start, nil
	}
	return c.Get(ctx, key, AtLeastVersion(atLeast))
}

// unsent returns the result of an edit for which nothing was sent.
func unsent(document PolicyDocument, outcome UpdateOutcome, update Update) UpdateResult {
	result := UpdateResult{Document: document, Version: document.Version, PreviousVersion: document.Version, Outcome: outcome}
	if update.IncludePrevious {
		result.Previous = &document
	}
	return result
}
