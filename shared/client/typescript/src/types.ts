import type { paths, Rehearsal } from "./schema.js";

/** The methods of the API. */
export type Method = "get" | "post" | "put" | "patch" | "delete";

type Success = 200 | 201 | 202 | 204;

type JSONOf<Response> = Response extends { content: { "application/json": infer Body } }
  ? Exclude<Body, Rehearsal>
  : Response extends { content?: never }
    ? undefined
    : never;

/** What an operation returns: the JSON of its successful answer, or undefined if that has no body. */
export type Data<Operation> = Operation extends { responses: infer Responses }
  ? { [Status in keyof Responses & Success]: JSONOf<Responses[Status]> }[keyof Responses & Success]
  : never;

/** The operation of a path and a method. */
export type OperationOf<P extends keyof paths, M extends Method> = paths[P] extends { [K in M]: infer Operation }
  ? Operation
  : never;

/** The paths that have an operation with a method which answers with JSON or without a body. */
export type PathWith<M extends Method> = {
  [P in keyof paths]: [Data<OperationOf<P, M>>] extends [never] ? never : P;
}[keyof paths];

/** The query parameters of a path's GET operation. */
export type Query<P extends keyof paths> =
  OperationOf<P, "get"> extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never;

/** The paths of lists that come in pages. */
export type ListPath = {
  [P in PathWith<"get">]: [Query<P>] extends [never] ? never : "cursor" extends keyof Query<P> ? P : never;
}[PathWith<"get">];

/** An item of a list. */
export type Item<P extends ListPath> = Data<OperationOf<P, "get">> extends (infer T)[] ? T : never;

/** Options of every call. */
export interface CallOptions {
  /** Ends the call, also between two attempts. The call then throws the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Receives the successful response, for example to read its `ETag`. The body is used up. */
  onResponse?: ((response: Response) => void) | undefined;
}

type QueryOf<Operation> = Operation extends { parameters: { query?: infer Q } } ? NonNullable<Q> : never;

type CanBeRehearsed<Operation> = [QueryOf<Operation>] extends [never]
  ? false
  : "dry_run" extends keyof QueryOf<Operation>
    ? true
    : false;

/** An operation whose parameters do not have dry_run, which is an option instead: it changes what a call returns. */
type WithoutDryRun<Operation> =
  CanBeRehearsed<Operation> extends true
    ? Operation extends { parameters: infer Parameters }
      ? Omit<Operation, "parameters"> & {
          parameters: Omit<Parameters, "query"> & { query?: Omit<QueryOf<Operation>, "dry_run"> & { dry_run?: never } };
        }
      : never
    : Operation;

/** Rehearses a call: the API checks everything and changes nothing. The call returns what it would do. */
export interface DryRun {
  dryRun: true;
}

/** The paths that have an operation with a method which can be rehearsed. */
export type RehearsablePath<M extends Method> = {
  [P in PathWith<M>]: CanBeRehearsed<OperationOf<P, M>> extends true ? P : never;
}[PathWith<M>];

/** Parameters, without those of places in a request where an operation has none. */
type Only<Parameters> = Parameters & { [Place in Exclude<"path" | "query" | "header", keyof Parameters>]?: never };

type ParamsOption<Operation> = Operation extends { parameters: infer P }
  ? {} extends P
    ? { params?: Only<P> }
    : { params: Only<P> }
  : never;

type JSONBody<Request> = Request extends { content: { "application/json": infer Body } } ? Body : never;

type BodyOption<Operation> = Operation extends { requestBody: infer Request }
  ? { body: JSONBody<Request> }
  : Operation extends { requestBody?: infer Request }
    ? { body?: JSONBody<NonNullable<Request>> }
    : { body?: never };

/** The parameters, the body and the options of a call. */
export type Init<Operation> = ParamsOption<WithoutDryRun<Operation>> & BodyOption<Operation> & CallOptions;

/** The arguments after the path: optional unless the operation requires a parameter or a body. */
export type Arguments<Operation> = {} extends Init<Operation> ? [init?: Init<Operation>] : [init: Init<Operation>];

/** Calls the operation of a path, or rehearses it. */
export interface Call<M extends Method> {
  <P extends RehearsablePath<M>>(path: P, init: Init<OperationOf<P, M>> & DryRun): Promise<Rehearsal>;
  <P extends PathWith<M>>(path: P, ...init: Arguments<OperationOf<P, M>>): Promise<Data<OperationOf<P, M>>>;
}
