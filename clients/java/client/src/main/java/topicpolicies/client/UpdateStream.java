package topicpolicies.client;

import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import topicpolicies.v1.TopicPoliciesServiceGrpc.TopicPoliciesServiceStub;
import topicpolicies.v1.UpdatePoliciesRequest;
import topicpolicies.v1.UpdatePoliciesResponse;

/** One stream of changes. Results are read one message at a time, when they are requested. */
final class UpdateStream implements ClientResponseObserver<UpdatePoliciesRequest, UpdatePoliciesResponse> {
    /** Gets the events of a stream, on gRPC's threads. */
    interface Listener {
        /** More changes can be sent. */
        void ready();

        /** Results have arrived; the next ones arrive after {@link UpdateStream#next}. */
        void received(UpdateStream stream, UpdatePoliciesResponse response);

        /** The stream has ended: why, and whether there was a connection that took it. */
        void broke(UpdateStream stream, TopicPoliciesException error, boolean sent);
    }

    private final TopicPoliciesServiceStub stub;
    private final boolean hurries;
    private final Pauses pauses;
    private final Listener listener;
    private final Sent sent = new Sent();
    private volatile ClientCallStreamObserver<UpdatePoliciesRequest> call;
    private volatile TopicPoliciesException ownEnd;
    private volatile long lastEventNanos = System.nanoTime();
    private boolean first = true;

    /** {@code hurries}: whether there is another address to try if connecting takes too long. */
    UpdateStream(TopicPoliciesServiceStub stub, boolean hurries, Pauses pauses, Listener listener) {
        this.stub = stub;
        this.hurries = hurries;
        this.pauses = pauses;
        this.listener = listener;
    }

    void open() {
        stub.withInterceptors(sent).updatePolicies(this);
        if (hurries) {
            pauses.pause(Line.CONNECTING).thenRun(() -> {
                if (!sent.isSent()) {
                    end(new TopicPoliciesException(Status.Code.UNAVAILABLE, "There was no connection in time.", null));
                }
            });
        }
    }

    /**
     * Whether a batch can be sent: the first one at once, so that it waits for the connection, and others as the stream accepts them. False
     * once the stream was ended here, which is about to be reported.
     */
    boolean isReady() {
        return ownEnd == null && (first || call.isReady());
    }

    /** Whether there was a connection that took the stream. */
    boolean isSent() {
        return sent.isSent();
    }

    void send(UpdatePoliciesRequest batch) {
        first = false;
        lastEventNanos = System.nanoTime(); // silence is measured from here
        call.onNext(batch);
    }

    /** Requests the next results. */
    void next() {
        lastEventNanos = System.nanoTime();
        call.request(1);
    }

    /** Ends the sending side: no more changes follow. */
    void finish() {
        call.onCompleted();
    }

    void cancel() {
        if (call != null) {
            call.cancel("the changes were cancelled", null);
        }
    }

    void endIfSilentFor(Duration silence) {
        if (System.nanoTime() - lastEventNanos > silence.toNanos()) {
            end(new TopicPoliciesException(Status.Code.DEADLINE_EXCEEDED, "The service has not answered in time.", null));
        }
    }

    private void end(TopicPoliciesException why) {
        ownEnd = why;
        call.cancel(why.getMessage(), null);
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<UpdatePoliciesRequest> started) {
        call = started;
        started.disableAutoRequestWithInitial(1);
        started.setOnReadyHandler(listener::ready);
    }

    @Override
    public void onNext(UpdatePoliciesResponse response) {
        lastEventNanos = System.nanoTime();
        listener.received(this, response);
    }

    @Override
    public void onError(Throwable error) {
        TopicPoliciesException own = ownEnd;
        listener.broke(this, own == null ? TopicPoliciesException.of(error) : own, sent.isSent());
    }

    @Override
    public void onCompleted() {
        listener.broke(this, new TopicPoliciesException(Status.Code.UNAVAILABLE, "The service has ended the stream.", null), sent.isSent());
    }
}
