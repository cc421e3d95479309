import "@agents.example/client/schema";

// Version 1 of the API may add values to enumerations of answers. With this choice, the types require that the console
// handles a value that it does not know.
declare module "@agents.example/client/schema" {
  interface Choices {
    newValues: true;
  }
}
