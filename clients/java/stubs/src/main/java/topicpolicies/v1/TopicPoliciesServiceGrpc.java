package topicpolicies.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Topic policies, one document per topic and scope (a policy key).
 * Versions: a document's version names the event that produced it. It is an opaque string; of one policy key, string order is
 * log order. It is the etag too. A document that is not there has a version as well.
 * Errors carry a google.rpc.ErrorInfo with the domain "topicpolicies" and a reason (ErrorReason), and, where what the request says is at
 * fault, a google.rpc.BadRequest with every violation. Only what gRPC itself refuses has none, such as a message of more than four times as
 * many bytes as the server takes.
 * Bounds: every text and every repeated field has a most, which its comment names. What is longer is refused with INVALID_ARGUMENT, and
 * nothing of the request is done. Lengths of texts are counted in Unicode characters.
 * What is unset: a field of a request means what its comment says where it is not set; a `bool` means no. A field of an answer is told
 * unless its comment says when it is not: 0, an empty text and false are values then.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TopicPoliciesServiceGrpc {

  private TopicPoliciesServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "topicpolicies.v1.TopicPoliciesService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.UpdatePolicyRequest,
      topicpolicies.v1.UpdatePolicyResponse> getUpdatePolicyMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdatePolicy",
      requestType = topicpolicies.v1.UpdatePolicyRequest.class,
      responseType = topicpolicies.v1.UpdatePolicyResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.UpdatePolicyRequest,
      topicpolicies.v1.UpdatePolicyResponse> getUpdatePolicyMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.UpdatePolicyRequest, topicpolicies.v1.UpdatePolicyResponse> getUpdatePolicyMethod;
    if ((getUpdatePolicyMethod = TopicPoliciesServiceGrpc.getUpdatePolicyMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getUpdatePolicyMethod = TopicPoliciesServiceGrpc.getUpdatePolicyMethod) == null) {
          TopicPoliciesServiceGrpc.getUpdatePolicyMethod = getUpdatePolicyMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.UpdatePolicyRequest, topicpolicies.v1.UpdatePolicyResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdatePolicy"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.UpdatePolicyRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.UpdatePolicyResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("UpdatePolicy"))
              .build();
        }
      }
    }
    return getUpdatePolicyMethod;
  }

  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.UpdatePoliciesRequest,
      topicpolicies.v1.UpdatePoliciesResponse> getUpdatePoliciesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdatePolicies",
      requestType = topicpolicies.v1.UpdatePoliciesRequest.class,
      responseType = topicpolicies.v1.UpdatePoliciesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.UpdatePoliciesRequest,
      topicpolicies.v1.UpdatePoliciesResponse> getUpdatePoliciesMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.UpdatePoliciesRequest, topicpolicies.v1.UpdatePoliciesResponse> getUpdatePoliciesMethod;
    if ((getUpdatePoliciesMethod = TopicPoliciesServiceGrpc.getUpdatePoliciesMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getUpdatePoliciesMethod = TopicPoliciesServiceGrpc.getUpdatePoliciesMethod) == null) {
          TopicPoliciesServiceGrpc.getUpdatePoliciesMethod = getUpdatePoliciesMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.UpdatePoliciesRequest, topicpolicies.v1.UpdatePoliciesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdatePolicies"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.UpdatePoliciesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.UpdatePoliciesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("UpdatePolicies"))
              .build();
        }
      }
    }
    return getUpdatePoliciesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.DeletePolicyRequest,
      topicpolicies.v1.DeletePolicyResponse> getDeletePolicyMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeletePolicy",
      requestType = topicpolicies.v1.DeletePolicyRequest.class,
      responseType = topicpolicies.v1.DeletePolicyResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.DeletePolicyRequest,
      topicpolicies.v1.DeletePolicyResponse> getDeletePolicyMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.DeletePolicyRequest, topicpolicies.v1.DeletePolicyResponse> getDeletePolicyMethod;
    if ((getDeletePolicyMethod = TopicPoliciesServiceGrpc.getDeletePolicyMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getDeletePolicyMethod = TopicPoliciesServiceGrpc.getDeletePolicyMethod) == null) {
          TopicPoliciesServiceGrpc.getDeletePolicyMethod = getDeletePolicyMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.DeletePolicyRequest, topicpolicies.v1.DeletePolicyResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeletePolicy"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.DeletePolicyRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.DeletePolicyResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("DeletePolicy"))
              .build();
        }
      }
    }
    return getDeletePolicyMethod;
  }

  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.GetPolicyRequest,
      topicpolicies.v1.GetPolicyResponse> getGetPolicyMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetPolicy",
      requestType = topicpolicies.v1.GetPolicyRequest.class,
      responseType = topicpolicies.v1.GetPolicyResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.GetPolicyRequest,
      topicpolicies.v1.GetPolicyResponse> getGetPolicyMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.GetPolicyRequest, topicpolicies.v1.GetPolicyResponse> getGetPolicyMethod;
    if ((getGetPolicyMethod = TopicPoliciesServiceGrpc.getGetPolicyMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getGetPolicyMethod = TopicPoliciesServiceGrpc.getGetPolicyMethod) == null) {
          TopicPoliciesServiceGrpc.getGetPolicyMethod = getGetPolicyMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.GetPolicyRequest, topicpolicies.v1.GetPolicyResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetPolicy"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.GetPolicyRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.GetPolicyResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("GetPolicy"))
              .build();
        }
      }
    }
    return getGetPolicyMethod;
  }

  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.GetEffectivePolicyRequest,
      topicpolicies.v1.GetEffectivePolicyResponse> getGetEffectivePolicyMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetEffectivePolicy",
      requestType = topicpolicies.v1.GetEffectivePolicyRequest.class,
      responseType = topicpolicies.v1.GetEffectivePolicyResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.GetEffectivePolicyRequest,
      topicpolicies.v1.GetEffectivePolicyResponse> getGetEffectivePolicyMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.GetEffectivePolicyRequest, topicpolicies.v1.GetEffectivePolicyResponse> getGetEffectivePolicyMethod;
    if ((getGetEffectivePolicyMethod = TopicPoliciesServiceGrpc.getGetEffectivePolicyMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getGetEffectivePolicyMethod = TopicPoliciesServiceGrpc.getGetEffectivePolicyMethod) == null) {
          TopicPoliciesServiceGrpc.getGetEffectivePolicyMethod = getGetEffectivePolicyMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.GetEffectivePolicyRequest, topicpolicies.v1.GetEffectivePolicyResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetEffectivePolicy"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.GetEffectivePolicyRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.GetEffectivePolicyResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("GetEffectivePolicy"))
              .build();
        }
      }
    }
    return getGetEffectivePolicyMethod;
  }

  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.ListPoliciesRequest,
      topicpolicies.v1.ListPoliciesResponse> getListPoliciesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListPolicies",
      requestType = topicpolicies.v1.ListPoliciesRequest.class,
      responseType = topicpolicies.v1.ListPoliciesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.ListPoliciesRequest,
      topicpolicies.v1.ListPoliciesResponse> getListPoliciesMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.ListPoliciesRequest, topicpolicies.v1.ListPoliciesResponse> getListPoliciesMethod;
    if ((getListPoliciesMethod = TopicPoliciesServiceGrpc.getListPoliciesMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getListPoliciesMethod = TopicPoliciesServiceGrpc.getListPoliciesMethod) == null) {
          TopicPoliciesServiceGrpc.getListPoliciesMethod = getListPoliciesMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.ListPoliciesRequest, topicpolicies.v1.ListPoliciesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListPolicies"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.ListPoliciesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.ListPoliciesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("ListPolicies"))
              .build();
        }
      }
    }
    return getListPoliciesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.WatchPoliciesRequest,
      topicpolicies.v1.WatchPoliciesResponse> getWatchPoliciesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchPolicies",
      requestType = topicpolicies.v1.WatchPoliciesRequest.class,
      responseType = topicpolicies.v1.WatchPoliciesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.WatchPoliciesRequest,
      topicpolicies.v1.WatchPoliciesResponse> getWatchPoliciesMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.WatchPoliciesRequest, topicpolicies.v1.WatchPoliciesResponse> getWatchPoliciesMethod;
    if ((getWatchPoliciesMethod = TopicPoliciesServiceGrpc.getWatchPoliciesMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getWatchPoliciesMethod = TopicPoliciesServiceGrpc.getWatchPoliciesMethod) == null) {
          TopicPoliciesServiceGrpc.getWatchPoliciesMethod = getWatchPoliciesMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.WatchPoliciesRequest, topicpolicies.v1.WatchPoliciesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchPolicies"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.WatchPoliciesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.WatchPoliciesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("WatchPolicies"))
              .build();
        }
      }
    }
    return getWatchPoliciesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.ListHistoryRequest,
      topicpolicies.v1.ListHistoryResponse> getListHistoryMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListHistory",
      requestType = topicpolicies.v1.ListHistoryRequest.class,
      responseType = topicpolicies.v1.ListHistoryResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.ListHistoryRequest,
      topicpolicies.v1.ListHistoryResponse> getListHistoryMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.ListHistoryRequest, topicpolicies.v1.ListHistoryResponse> getListHistoryMethod;
    if ((getListHistoryMethod = TopicPoliciesServiceGrpc.getListHistoryMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getListHistoryMethod = TopicPoliciesServiceGrpc.getListHistoryMethod) == null) {
          TopicPoliciesServiceGrpc.getListHistoryMethod = getListHistoryMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.ListHistoryRequest, topicpolicies.v1.ListHistoryResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListHistory"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.ListHistoryRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.ListHistoryResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("ListHistory"))
              .build();
        }
      }
    }
    return getListHistoryMethod;
  }

  private static volatile io.grpc.MethodDescriptor<topicpolicies.v1.GetServerInfoRequest,
      topicpolicies.v1.GetServerInfoResponse> getGetServerInfoMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetServerInfo",
      requestType = topicpolicies.v1.GetServerInfoRequest.class,
      responseType = topicpolicies.v1.GetServerInfoResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<topicpolicies.v1.GetServerInfoRequest,
      topicpolicies.v1.GetServerInfoResponse> getGetServerInfoMethod() {
    io.grpc.MethodDescriptor<topicpolicies.v1.GetServerInfoRequest, topicpolicies.v1.GetServerInfoResponse> getGetServerInfoMethod;
    if ((getGetServerInfoMethod = TopicPoliciesServiceGrpc.getGetServerInfoMethod) == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        if ((getGetServerInfoMethod = TopicPoliciesServiceGrpc.getGetServerInfoMethod) == null) {
          TopicPoliciesServiceGrpc.getGetServerInfoMethod = getGetServerInfoMethod =
              io.grpc.MethodDescriptor.<topicpolicies.v1.GetServerInfoRequest, topicpolicies.v1.GetServerInfoResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetServerInfo"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.GetServerInfoRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  topicpolicies.v1.GetServerInfoResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TopicPoliciesServiceMethodDescriptorSupplier("GetServerInfo"))
              .build();
        }
      }
    }
    return getGetServerInfoMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TopicPoliciesServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TopicPoliciesServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TopicPoliciesServiceStub>() {
        @java.lang.Override
        public TopicPoliciesServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TopicPoliciesServiceStub(channel, callOptions);
        }
      };
    return TopicPoliciesServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TopicPoliciesServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TopicPoliciesServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TopicPoliciesServiceBlockingV2Stub>() {
        @java.lang.Override
        public TopicPoliciesServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TopicPoliciesServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TopicPoliciesServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TopicPoliciesServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TopicPoliciesServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TopicPoliciesServiceBlockingStub>() {
        @java.lang.Override
        public TopicPoliciesServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TopicPoliciesServiceBlockingStub(channel, callOptions);
        }
      };
    return TopicPoliciesServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TopicPoliciesServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TopicPoliciesServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TopicPoliciesServiceFutureStub>() {
        @java.lang.Override
        public TopicPoliciesServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TopicPoliciesServiceFutureStub(channel, callOptions);
        }
      };
    return TopicPoliciesServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Topic policies, one document per topic and scope (a policy key).
   * Versions: a document's version names the event that produced it. It is an opaque string; of one policy key, string order is
   * log order. It is the etag too. A document that is not there has a version as well.
   * Errors carry a google.rpc.ErrorInfo with the domain "topicpolicies" and a reason (ErrorReason), and, where what the request says is at
   * fault, a google.rpc.BadRequest with every violation. Only what gRPC itself refuses has none, such as a message of more than four times as
   * many bytes as the server takes.
   * Bounds: every text and every repeated field has a most, which its comment names. What is longer is refused with INVALID_ARGUMENT, and
   * nothing of the request is done. Lengths of texts are counted in Unicode characters.
   * What is unset: a field of a request means what its comment says where it is not set; a `bool` means no. A field of an answer is told
   * unless its comment says when it is not: 0, an empty text and false are values then.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Applies a masked change to one document, and answers when its place in the log is known.
     * </pre>
     */
    default void updatePolicy(topicpolicies.v1.UpdatePolicyRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.UpdatePolicyResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdatePolicyMethod(), responseObserver);
    }

    /**
     * <pre>
     * The same for many changes, in batches, pipelined. Changes of one policy key are applied in the stream's order; every change gets one
     * result, in the order in which they are settled. A change that fails concerns no other one; nor does one that can't be decoded, which is
     * told by its sequence, or by 0 where that can't be told from the rest of its message. A caller that does not read its results is not
     * read from either.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<topicpolicies.v1.UpdatePoliciesRequest> updatePolicies(
        io.grpc.stub.StreamObserver<topicpolicies.v1.UpdatePoliciesResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getUpdatePoliciesMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes one document, and answers when its place in the log is known. A document that is not there is deleted already: outcome ABSENT,
     * unless an etag says otherwise.
     * </pre>
     */
    default void deletePolicy(topicpolicies.v1.DeletePolicyRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.DeletePolicyResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeletePolicyMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reads the documents of one topic.
     * </pre>
     */
    default void getPolicy(topicpolicies.v1.GetPolicyRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.GetPolicyResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetPolicyMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reads what holds for one topic, and which level says so.
     * </pre>
     */
    default void getEffectivePolicy(topicpolicies.v1.GetEffectivePolicyRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.GetEffectivePolicyResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetEffectivePolicyMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the documents of a namespace, in pages, ordered by topic and scope.
     * </pre>
     */
    default void listPolicies(topicpolicies.v1.ListPoliciesRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.ListPoliciesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListPoliciesMethod(), responseObserver);
    }

    /**
     * <pre>
     * Streams documents and their changes. Per namespace: a snapshot, a SYNCED bookmark, then changes. docs/watch.md has the whole protocol.
     * </pre>
     */
    default void watchPolicies(topicpolicies.v1.WatchPoliciesRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.WatchPoliciesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchPoliciesMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists what happened to the documents of a topic or a namespace, in pages, from this server's own record of the change log.
     * </pre>
     */
    default void listHistory(topicpolicies.v1.ListHistoryRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.ListHistoryResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListHistoryMethod(), responseObserver);
    }

    /**
     * <pre>
     * Tells what this server is, and what its limits are.
     * </pre>
     */
    default void getServerInfo(topicpolicies.v1.GetServerInfoRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.GetServerInfoResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetServerInfoMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TopicPoliciesService.
   * <pre>
   * Topic policies, one document per topic and scope (a policy key).
   * Versions: a document's version names the event that produced it. It is an opaque string; of one policy key, string order is
   * log order. It is the etag too. A document that is not there has a version as well.
   * Errors carry a google.rpc.ErrorInfo with the domain "topicpolicies" and a reason (ErrorReason), and, where what the request says is at
   * fault, a google.rpc.BadRequest with every violation. Only what gRPC itself refuses has none, such as a message of more than four times as
   * many bytes as the server takes.
   * Bounds: every text and every repeated field has a most, which its comment names. What is longer is refused with INVALID_ARGUMENT, and
   * nothing of the request is done. Lengths of texts are counted in Unicode characters.
   * What is unset: a field of a request means what its comment says where it is not set; a `bool` means no. A field of an answer is told
   * unless its comment says when it is not: 0, an empty text and false are values then.
   * </pre>
   */
  public static abstract class TopicPoliciesServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TopicPoliciesServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TopicPoliciesService.
   * <pre>
   * Topic policies, one document per topic and scope (a policy key).
   * Versions: a document's version names the event that produced it. It is an opaque string; of one policy key, string order is
   * log order. It is the etag too. A document that is not there has a version as well.
   * Errors carry a google.rpc.ErrorInfo with the domain "topicpolicies" and a reason (ErrorReason), and, where what the request says is at
   * fault, a google.rpc.BadRequest with every violation. Only what gRPC itself refuses has none, such as a message of more than four times as
   * many bytes as the server takes.
   * Bounds: every text and every repeated field has a most, which its comment names. What is longer is refused with INVALID_ARGUMENT, and
   * nothing of the request is done. Lengths of texts are counted in Unicode characters.
   * What is unset: a field of a request means what its comment says where it is not set; a `bool` means no. A field of an answer is told
   * unless its comment says when it is not: 0, an empty text and false are values then.
   * </pre>
   */
  public static final class TopicPoliciesServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TopicPoliciesServiceStub> {
    private TopicPoliciesServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TopicPoliciesServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TopicPoliciesServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Applies a masked change to one document, and answers when its place in the log is known.
     * </pre>
     */
    public void updatePolicy(topicpolicies.v1.UpdatePolicyRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.UpdatePolicyResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdatePolicyMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * The same for many changes, in batches, pipelined. Changes of one policy key are applied in the stream's order; every change gets one
     * result, in the order in which they are settled. A change that fails concerns no other one; nor does one that can't be decoded, which is
     * told by its sequence, or by 0 where that can't be told from the rest of its message. A caller that does not read its results is not
     * read from either.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<topicpolicies.v1.UpdatePoliciesRequest> updatePolicies(
        io.grpc.stub.StreamObserver<topicpolicies.v1.UpdatePoliciesResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getUpdatePoliciesMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * Deletes one document, and answers when its place in the log is known. A document that is not there is deleted already: outcome ABSENT,
     * unless an etag says otherwise.
     * </pre>
     */
    public void deletePolicy(topicpolicies.v1.DeletePolicyRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.DeletePolicyResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeletePolicyMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reads the documents of one topic.
     * </pre>
     */
    public void getPolicy(topicpolicies.v1.GetPolicyRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.GetPolicyResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetPolicyMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reads what holds for one topic, and which level says so.
     * </pre>
     */
    public void getEffectivePolicy(topicpolicies.v1.GetEffectivePolicyRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.GetEffectivePolicyResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetEffectivePolicyMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the documents of a namespace, in pages, ordered by topic and scope.
     * </pre>
     */
    public void listPolicies(topicpolicies.v1.ListPoliciesRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.ListPoliciesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListPoliciesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Streams documents and their changes. Per namespace: a snapshot, a SYNCED bookmark, then changes. docs/watch.md has the whole protocol.
     * </pre>
     */
    public void watchPolicies(topicpolicies.v1.WatchPoliciesRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.WatchPoliciesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchPoliciesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists what happened to the documents of a topic or a namespace, in pages, from this server's own record of the change log.
     * </pre>
     */
    public void listHistory(topicpolicies.v1.ListHistoryRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.ListHistoryResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListHistoryMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Tells what this server is, and what its limits are.
     * </pre>
     */
    public void getServerInfo(topicpolicies.v1.GetServerInfoRequest request,
        io.grpc.stub.StreamObserver<topicpolicies.v1.GetServerInfoResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetServerInfoMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TopicPoliciesService.
   * <pre>
   * Topic policies, one document per topic and scope (a policy key).
   * Versions: a document's version names the event that produced it. It is an opaque string; of one policy key, string order is
   * log order. It is the etag too. A document that is not there has a version as well.
   * Errors carry a google.rpc.ErrorInfo with the domain "topicpolicies" and a reason (ErrorReason), and, where what the request says is at
   * fault, a google.rpc.BadRequest with every violation. Only what gRPC itself refuses has none, such as a message of more than four times as
   * many bytes as the server takes.
   * Bounds: every text and every repeated field has a most, which its comment names. What is longer is refused with INVALID_ARGUMENT, and
   * nothing of the request is done. Lengths of texts are counted in Unicode characters.
   * What is unset: a field of a request means what its comment says where it is not set; a `bool` means no. A field of an answer is told
   * unless its comment says when it is not: 0, an empty text and false are values then.
   * </pre>
   */
  public static final class TopicPoliciesServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TopicPoliciesServiceBlockingV2Stub> {
    private TopicPoliciesServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TopicPoliciesServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TopicPoliciesServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Applies a masked change to one document, and answers when its place in the log is known.
     * </pre>
     */
    public topicpolicies.v1.UpdatePolicyResponse updatePolicy(topicpolicies.v1.UpdatePolicyRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdatePolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * The same for many changes, in batches, pipelined. Changes of one policy key are applied in the stream's order; every change gets one
     * result, in the order in which they are settled. A change that fails concerns no other one; nor does one that can't be decoded, which is
     * told by its sequence, or by 0 where that can't be told from the rest of its message. A caller that does not read its results is not
     * read from either.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<topicpolicies.v1.UpdatePoliciesRequest, topicpolicies.v1.UpdatePoliciesResponse>
        updatePolicies() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getUpdatePoliciesMethod(), getCallOptions());
    }

    /**
     * <pre>
     * Deletes one document, and answers when its place in the log is known. A document that is not there is deleted already: outcome ABSENT,
     * unless an etag says otherwise.
     * </pre>
     */
    public topicpolicies.v1.DeletePolicyResponse deletePolicy(topicpolicies.v1.DeletePolicyRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeletePolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads the documents of one topic.
     * </pre>
     */
    public topicpolicies.v1.GetPolicyResponse getPolicy(topicpolicies.v1.GetPolicyRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetPolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads what holds for one topic, and which level says so.
     * </pre>
     */
    public topicpolicies.v1.GetEffectivePolicyResponse getEffectivePolicy(topicpolicies.v1.GetEffectivePolicyRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetEffectivePolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the documents of a namespace, in pages, ordered by topic and scope.
     * </pre>
     */
    public topicpolicies.v1.ListPoliciesResponse listPolicies(topicpolicies.v1.ListPoliciesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListPoliciesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams documents and their changes. Per namespace: a snapshot, a SYNCED bookmark, then changes. docs/watch.md has the whole protocol.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, topicpolicies.v1.WatchPoliciesResponse>
        watchPolicies(topicpolicies.v1.WatchPoliciesRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchPoliciesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists what happened to the documents of a topic or a namespace, in pages, from this server's own record of the change log.
     * </pre>
     */
    public topicpolicies.v1.ListHistoryResponse listHistory(topicpolicies.v1.ListHistoryRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListHistoryMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells what this server is, and what its limits are.
     * </pre>
     */
    public topicpolicies.v1.GetServerInfoResponse getServerInfo(topicpolicies.v1.GetServerInfoRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetServerInfoMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TopicPoliciesService.
   * <pre>
   * Topic policies, one document per topic and scope (a policy key).
   * Versions: a document's version names the event that produced it. It is an opaque string; of one policy key, string order is
   * log order. It is the etag too. A document that is not there has a version as well.
   * Errors carry a google.rpc.ErrorInfo with the domain "topicpolicies" and a reason (ErrorReason), and, where what the request says is at
   * fault, a google.rpc.BadRequest with every violation. Only what gRPC itself refuses has none, such as a message of more than four times as
   * many bytes as the server takes.
   * Bounds: every text and every repeated field has a most, which its comment names. What is longer is refused with INVALID_ARGUMENT, and
   * nothing of the request is done. Lengths of texts are counted in Unicode characters.
   * What is unset: a field of a request means what its comment says where it is not set; a `bool` means no. A field of an answer is told
   * unless its comment says when it is not: 0, an empty text and false are values then.
   * </pre>
   */
  public static final class TopicPoliciesServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TopicPoliciesServiceBlockingStub> {
    private TopicPoliciesServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TopicPoliciesServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TopicPoliciesServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Applies a masked change to one document, and answers when its place in the log is known.
     * </pre>
     */
    public topicpolicies.v1.UpdatePolicyResponse updatePolicy(topicpolicies.v1.UpdatePolicyRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdatePolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes one document, and answers when its place in the log is known. A document that is not there is deleted already: outcome ABSENT,
     * unless an etag says otherwise.
     * </pre>
     */
    public topicpolicies.v1.DeletePolicyResponse deletePolicy(topicpolicies.v1.DeletePolicyRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeletePolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads the documents of one topic.
     * </pre>
     */
    public topicpolicies.v1.GetPolicyResponse getPolicy(topicpolicies.v1.GetPolicyRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetPolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads what holds for one topic, and which level says so.
     * </pre>
     */
    public topicpolicies.v1.GetEffectivePolicyResponse getEffectivePolicy(topicpolicies.v1.GetEffectivePolicyRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetEffectivePolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the documents of a namespace, in pages, ordered by topic and scope.
     * </pre>
     */
    public topicpolicies.v1.ListPoliciesResponse listPolicies(topicpolicies.v1.ListPoliciesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListPoliciesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams documents and their changes. Per namespace: a snapshot, a SYNCED bookmark, then changes. docs/watch.md has the whole protocol.
     * </pre>
     */
    public java.util.Iterator<topicpolicies.v1.WatchPoliciesResponse> watchPolicies(
        topicpolicies.v1.WatchPoliciesRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchPoliciesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists what happened to the documents of a topic or a namespace, in pages, from this server's own record of the change log.
     * </pre>
     */
    public topicpolicies.v1.ListHistoryResponse listHistory(topicpolicies.v1.ListHistoryRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListHistoryMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells what this server is, and what its limits are.
     * </pre>
     */
    public topicpolicies.v1.GetServerInfoResponse getServerInfo(topicpolicies.v1.GetServerInfoRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetServerInfoMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TopicPoliciesService.
   * <pre>
   * Topic policies, one document per topic and scope (a policy key).
   * Versions: a document's version names the event that produced it. It is an opaque string; of one policy key, string order is
   * log order. It is the etag too. A document that is not there has a version as well.
   * Errors carry a google.rpc.ErrorInfo with the domain "topicpolicies" and a reason (ErrorReason), and, where what the request says is at
   * fault, a google.rpc.BadRequest with every violation. Only what gRPC itself refuses has none, such as a message of more than four times as
   * many bytes as the server takes.
   * Bounds: every text and every repeated field has a most, which its comment names. What is longer is refused with INVALID_ARGUMENT, and
   * nothing of the request is done. Lengths of texts are counted in Unicode characters.
   * What is unset: a field of a request means what its comment says where it is not set; a `bool` means no. A field of an answer is told
   * unless its comment says when it is not: 0, an empty text and false are values then.
   * </pre>
   */
  public static final class TopicPoliciesServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TopicPoliciesServiceFutureStub> {
    private TopicPoliciesServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TopicPoliciesServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TopicPoliciesServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Applies a masked change to one document, and answers when its place in the log is known.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<topicpolicies.v1.UpdatePolicyResponse> updatePolicy(
        topicpolicies.v1.UpdatePolicyRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdatePolicyMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes one document, and answers when its place in the log is known. A document that is not there is deleted already: outcome ABSENT,
     * unless an etag says otherwise.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<topicpolicies.v1.DeletePolicyResponse> deletePolicy(
        topicpolicies.v1.DeletePolicyRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeletePolicyMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reads the documents of one topic.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<topicpolicies.v1.GetPolicyResponse> getPolicy(
        topicpolicies.v1.GetPolicyRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetPolicyMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reads what holds for one topic, and which level says so.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<topicpolicies.v1.GetEffectivePolicyResponse> getEffectivePolicy(
        topicpolicies.v1.GetEffectivePolicyRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetEffectivePolicyMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the documents of a namespace, in pages, ordered by topic and scope.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<topicpolicies.v1.ListPoliciesResponse> listPolicies(
        topicpolicies.v1.ListPoliciesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListPoliciesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists what happened to the documents of a topic or a namespace, in pages, from this server's own record of the change log.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<topicpolicies.v1.ListHistoryResponse> listHistory(
        topicpolicies.v1.ListHistoryRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListHistoryMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Tells what this server is, and what its limits are.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<topicpolicies.v1.GetServerInfoResponse> getServerInfo(
        topicpolicies.v1.GetServerInfoRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetServerInfoMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_UPDATE_POLICY = 0;
  private static final int METHODID_DELETE_POLICY = 1;
  private static final int METHODID_GET_POLICY = 2;
  private static final int METHODID_GET_EFFECTIVE_POLICY = 3;
  private static final int METHODID_LIST_POLICIES = 4;
  private static final int METHODID_WATCH_POLICIES = 5;
  private static final int METHODID_LIST_HISTORY = 6;
  private static final int METHODID_GET_SERVER_INFO = 7;
  private static final int METHODID_UPDATE_POLICIES = 8;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_UPDATE_POLICY:
          serviceImpl.updatePolicy((topicpolicies.v1.UpdatePolicyRequest) request,
              (io.grpc.stub.StreamObserver<topicpolicies.v1.UpdatePolicyResponse>) responseObserver);
          break;
        case METHODID_DELETE_POLICY:
          serviceImpl.deletePolicy((topicpolicies.v1.DeletePolicyRequest) request,
              (io.grpc.stub.StreamObserver<topicpolicies.v1.DeletePolicyResponse>) responseObserver);
          break;
        case METHODID_GET_POLICY:
          serviceImpl.getPolicy((topicpolicies.v1.GetPolicyRequest) request,
              (io.grpc.stub.StreamObserver<topicpolicies.v1.GetPolicyResponse>) responseObserver);
          break;
        case METHODID_GET_EFFECTIVE_POLICY:
          serviceImpl.getEffectivePolicy((topicpolicies.v1.GetEffectivePolicyRequest) request,
              (io.grpc.stub.StreamObserver<topicpolicies.v1.GetEffectivePolicyResponse>) responseObserver);
          break;
        case METHODID_LIST_POLICIES:
          serviceImpl.listPolicies((topicpolicies.v1.ListPoliciesRequest) request,
              (io.grpc.stub.StreamObserver<topicpolicies.v1.ListPoliciesResponse>) responseObserver);
          break;
        case METHODID_WATCH_POLICIES:
          serviceImpl.watchPolicies((topicpolicies.v1.WatchPoliciesRequest) request,
              (io.grpc.stub.StreamObserver<topicpolicies.v1.WatchPoliciesResponse>) responseObserver);
          break;
        case METHODID_LIST_HISTORY:
          serviceImpl.listHistory((topicpolicies.v1.ListHistoryRequest) request,
              (io.grpc.stub.StreamObserver<topicpolicies.v1.ListHistoryResponse>) responseObserver);
          break;
        case METHODID_GET_SERVER_INFO:
          serviceImpl.getServerInfo((topicpolicies.v1.GetServerInfoRequest) request,
              (io.grpc.stub.StreamObserver<topicpolicies.v1.GetServerInfoResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_UPDATE_POLICIES:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.updatePolicies(
              (io.grpc.stub.StreamObserver<topicpolicies.v1.UpdatePoliciesResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getUpdatePolicyMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              topicpolicies.v1.UpdatePolicyRequest,
              topicpolicies.v1.UpdatePolicyResponse>(
                service, METHODID_UPDATE_POLICY)))
        .addMethod(
          getUpdatePoliciesMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              topicpolicies.v1.UpdatePoliciesRequest,
              topicpolicies.v1.UpdatePoliciesResponse>(
                service, METHODID_UPDATE_POLICIES)))
        .addMethod(
          getDeletePolicyMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              topicpolicies.v1.DeletePolicyRequest,
              topicpolicies.v1.DeletePolicyResponse>(
                service, METHODID_DELETE_POLICY)))
        .addMethod(
          getGetPolicyMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              topicpolicies.v1.GetPolicyRequest,
              topicpolicies.v1.GetPolicyResponse>(
                service, METHODID_GET_POLICY)))
        .addMethod(
          getGetEffectivePolicyMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              topicpolicies.v1.GetEffectivePolicyRequest,
              topicpolicies.v1.GetEffectivePolicyResponse>(
                service, METHODID_GET_EFFECTIVE_POLICY)))
        .addMethod(
          getListPoliciesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              topicpolicies.v1.ListPoliciesRequest,
              topicpolicies.v1.ListPoliciesResponse>(
                service, METHODID_LIST_POLICIES)))
        .addMethod(
          getWatchPoliciesMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              topicpolicies.v1.WatchPoliciesRequest,
              topicpolicies.v1.WatchPoliciesResponse>(
                service, METHODID_WATCH_POLICIES)))
        .addMethod(
          getListHistoryMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              topicpolicies.v1.ListHistoryRequest,
              topicpolicies.v1.ListHistoryResponse>(
                service, METHODID_LIST_HISTORY)))
        .addMethod(
          getGetServerInfoMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              topicpolicies.v1.GetServerInfoRequest,
              topicpolicies.v1.GetServerInfoResponse>(
                service, METHODID_GET_SERVER_INFO)))
        .build();
  }

  private static abstract class TopicPoliciesServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TopicPoliciesServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return topicpolicies.v1.ServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TopicPoliciesService");
    }
  }

  private static final class TopicPoliciesServiceFileDescriptorSupplier
      extends TopicPoliciesServiceBaseDescriptorSupplier {
    TopicPoliciesServiceFileDescriptorSupplier() {}
  }

  private static final class TopicPoliciesServiceMethodDescriptorSupplier
      extends TopicPoliciesServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TopicPoliciesServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (TopicPoliciesServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TopicPoliciesServiceFileDescriptorSupplier())
              .addMethod(getUpdatePolicyMethod())
              .addMethod(getUpdatePoliciesMethod())
              .addMethod(getDeletePolicyMethod())
              .addMethod(getGetPolicyMethod())
              .addMethod(getGetEffectivePolicyMethod())
              .addMethod(getListPoliciesMethod())
              .addMethod(getWatchPoliciesMethod())
              .addMethod(getListHistoryMethod())
              .addMethod(getGetServerInfoMethod())
              .build();
        }
      }
    }
    return result;
  }
}
